;; A component made by componentize-py is a snapshot of the interpreter's memory after it imported the plugin. What differs
;; from build to build gets into it: the hash seed, random bytes, times and inodes of files, and whatever of them is left in
;; freed memory and on the stack. componentize-py has no switch for that (bytecodealliance/componentize-py#247), but it links
;; native extensions. This one prepares the interpreter before it starts and cleans up before the snapshot is taken, so that
;; the same sources give the same bytes. Free memory full of zeros takes no room in the file either: 2 MB less.
;;
;; snapshot.wasm is made of it by `python -c 'import wasmtime, sys; sys.stdout.buffer.write(wasmtime.wat2wasm(sys.stdin.read()))'`.
(module
  (@dylink.0 (mem-info (memory 216 2) (table 5 0)))
  (import "env" "memory" (memory 0))
  (import "env" "__indirect_function_table" (table 0 funcref))
  (import "env" "__memory_base" (global $base i32))
  (import "env" "__table_base" (global $table i32))
  ;; The stack begins at address 0 and grows downwards: all below this is unused.
  (import "env" "__stack_pointer" (global $stack (mut i32)))
  (import "GOT.mem" "__stack_chk_guard" (global $in_libc (mut i32)))
  (import "GOT.mem" "_Py_HashSecret" (global $in_libpython (mut i32)))
  (import "env" "__init_ssp" (func $init_stack_guard (param i32)))
  (import "env" "setenv" (func $setenv (param i32 i32 i32) (result i32)))
  (import "env" "malloc" (func $malloc (param i32) (result i32)))
  (import "env" "realloc" (func $realloc (param i32 i32) (result i32)))
  (import "env" "free" (func $free (param i32)))
  (import "env" "malloc_usable_size" (func $size (param i32) (result i32)))
  (import "env" "PyMem_GetAllocator" (func $get_allocator (param i32 i32)))
  (import "env" "PyMem_SetAllocator" (func $set_allocator (param i32 i32)))
  (import "env" "PyImport_AppendInittab" (func $append_inittab (param i32 i32) (result i32)))
  (import "env" "PyImport_ImportModule" (func $import_module (param i32) (result i32)))
  (import "env" "PyModuleDef_Init" (func $module_def_init (param i32) (result i32)))

  ;;   0  the environment          64  our allocator          144  PyModuleDef of the module `guesthouse_snapshot`
  ;;  20  names of modules         84  Python's own, three    200  its slots
  (data (global.get $base) "PYTHONHASHSEED\000\00")
  (data (i32.add (global.get $base) (i32.const 20)) "guesthouse_snapshot\00guesthouse_main\00")
  (func $at (param i32) (result i32) (i32.add (global.get $base) (local.get 0)))

  (elem (global.get $table) func $zeroed_malloc $zeroed_calloc $zeroed_realloc $define $create)
  (func $function (param i32) (result i32) (i32.add (global.get $table) (local.get 0)))

  ;; Runs when the libraries are linked, before anything of Python does.
  (func (export "__wasm_call_ctors") (local $domain i32)
    (drop (call $setenv (call $at (i32.const 0)) (call $at (i32.const 15)) (i32.const 1)))
    (call $forget_what_libraries_drew)
    (loop $domains ;; raw, mem, object
      (call $get_allocator (local.get $domain) (call $own_allocator (local.get $domain)))
      (call $get_allocator (local.get $domain) (call $at (i32.const 64)))
      (i32.store (call $at (i32.const 68)) (call $function (i32.const 0)))
      (i32.store (call $at (i32.const 72)) (call $function (i32.const 1)))
      (i32.store (call $at (i32.const 76)) (call $function (i32.const 2)))
      (call $set_allocator (local.get $domain) (call $at (i32.const 64)))
      (br_if $domains (i32.lt_u (local.tee $domain (i32.add (local.get $domain) (i32.const 1))) (i32.const 3))))
    ;; A builtin module that imports the plugin: found without a look at any file, near the stack's begin, so that what is
    ;; left of those looks lies below and is wiped.
    (i32.store (call $at (i32.const 144)) (i32.const 1)) ;; reference count
    (i32.store (call $at (i32.const 164)) (call $at (i32.const 20))) ;; m_name
    (i32.store (call $at (i32.const 180)) (call $at (i32.const 200))) ;; m_slots
    (i32.store (call $at (i32.const 200)) (i32.const 1)) ;; Py_mod_create
    (i32.store (call $at (i32.const 204)) (call $function (i32.const 4)))
    (drop (call $append_inittab (call $at (i32.const 20)) (call $function (i32.const 3))))
    (call $wipe_stack))

  (func $define (result i32) (call $module_def_init (call $at (i32.const 144))))

  ;; The module's creation: that of `guesthouse_main`, which is the plugin. Its last line settles what Python itself keeps.
  (func $create (param $spec i32) (param $def i32) (result i32) (local $module i32) (local $domain i32)
    (call $wipe_stack)
    (local.set $module (call $import_module (call $at (i32.const 40))))
    (loop $domains
      (call $set_allocator (local.get $domain) (call $own_allocator (local.get $domain)))
      (br_if $domains (i32.lt_u (local.tee $domain (i32.add (local.get $domain) (i32.const 1))) (i32.const 3))))
    (call $wipe_heap)
    (call $wipe_stack)
    (local.get $module))

  (func $own_allocator (param $domain i32) (result i32)
    (i32.add (call $at (i32.const 84)) (i32.mul (local.get $domain) (i32.const 20))))

  (func $wipe_stack (memory.fill (i32.const 0) (i32.const 0) (global.get $stack)))

  ;; Takes all free memory there is, in blocks of every size from large to small, zeroes it, and gives it back.
  (func $wipe_heap (local $end i32) (local $n i32) (local $p i32) (local $taken i32)
    (local.set $end (i32.shl (memory.size) (i32.const 16)))
    (local.set $n (i32.const 0x10000))
    (loop $sizes
      (loop $blocks
        (local.set $p (call $malloc (local.get $n)))
        (if (i32.lt_u (i32.sub (local.get $p) (i32.const 1)) (local.get $end)) (then ;; not null, and no memory that was added
          (memory.fill (local.get $p) (i32.const 0) (call $size (local.get $p)))
          (i32.store (local.get $p) (local.get $taken))
          (local.set $taken (local.get $p))
          (br $blocks))))
      (call $free (local.get $p))
      (br_if $sizes (i32.ge_u (local.tee $n (i32.shr_u (local.get $n) (i32.const 1))) (i32.const 8))))
    (loop $back
      (if (local.get $taken) (then
        (local.set $p (local.get $taken))
        (local.set $taken (i32.load (local.get $p)))
        (i32.store (local.get $p) (i32.const 0))
        (call $free (local.get $p))
        (br $back)))))

  ;; Constructors of libraries have drawn random bytes and read the clock already: the stack guard, mimalloc (which is linked
  ;; and not used), and the start of the process. Only the first has a name; the other places are those of componentize-py
  ;; 0.25.1, told by the constant that lies amid mimalloc's bytes. Anything else is a trap, and no component is made.
  (func $forget_what_libraries_drew
    (call $init_stack_guard (i32.const 0))
    (if (i64.ne (i64.load (i32.sub (global.get $in_libpython) (i32.const 0x8b950))) (i64.const 0x3320646e61707865)) ;; expand 3
      (then unreachable))
    (memory.fill (i32.sub (global.get $in_libpython) (i32.const 0x8b95c)) (i32.const 0) (i32.const 140)) ;; cookie, keys, random
    (memory.fill (i32.sub (global.get $in_libpython) (i32.const 0x8340)) (i32.const 0) (i32.const 8)) ;; mi_process_start
    (memory.fill (i32.add (global.get $in_libc) (i32.const 0x13ac)) (i32.const 0) (i32.const 16))) ;; start of clock()

  ;; Blocks are zero when they are handed out, up to their last byte: what a value leaves unwritten is the same in every build.
  (func $zeroed_malloc (param $ctx i32) (param $n i32) (result i32) (local $p i32)
    (local.set $p (call $malloc (select (local.get $n) (i32.const 1) (local.get $n))))
    (if (local.get $p) (then (memory.fill (local.get $p) (i32.const 0) (call $size (local.get $p)))))
    (local.get $p))
  (func $zeroed_calloc (param $ctx i32) (param $count i32) (param $n i32) (result i32)
    (call $zeroed_malloc (local.get $ctx) (i32.mul (local.get $count) (local.get $n))))
  (func $zeroed_realloc (param $ctx i32) (param $p i32) (param $n i32) (result i32) (local $old i32) (local $new i32)
    (if (i32.eqz (local.get $p)) (then (return (call $zeroed_malloc (local.get $ctx) (local.get $n)))))
    (local.set $old (call $size (local.get $p)))
    (local.set $p (call $realloc (local.get $p) (select (local.get $n) (i32.const 1) (local.get $n))))
    (if (i32.eqz (local.get $p)) (then (return (i32.const 0))))
    (local.set $new (call $size (local.get $p)))
    (if (i32.gt_u (local.get $new) (local.get $old)) (then
      (memory.fill
        (i32.add (local.get $p) (local.get $old)) (i32.const 0) (i32.sub (local.get $new) (local.get $old)))))
    (local.get $p))
)
