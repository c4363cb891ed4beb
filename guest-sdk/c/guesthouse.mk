# How a plugin in C is built and tested; `include sdk/guesthouse.mk` in the plugin's Makefile:
#
#   greeter.wasm: greeter.c            %.wasm of a source file is a plugin
#   test: build/greeter_test           build/% of a source file is a native program
#   	$< cases/*.json
GUESTHOUSE_SDK := $(patsubst %/,%,$(dir $(lastword $(MAKEFILE_LIST))))
GUESTHOUSE_HEADERS := $(wildcard $(GUESTHOUSE_SDK)/*.h)

WARNINGS ?= -Wall -Wextra -Werror
SANITIZE ?= -fsanitize=address,undefined

# The stack stands first, so that running over its end is a trap and not somebody else's data. Nothing of the machine goes
# into the file: no debug information, no names, no paths.
WASM_FLAGS ?= -std=c11 -Os -s $(WARNINGS) -I$(GUESTHOUSE_SDK) -Wl,--stack-first -Wl,-z,stack-size=262144
TEST_FLAGS ?= -std=c11 -g $(WARNINGS) $(SANITIZE) -I$(GUESTHOUSE_SDK)

%.wasm: %.c $(GUESTHOUSE_HEADERS)
	sh $(GUESTHOUSE_SDK)/wasi-cc $(WASM_FLAGS) -o $@ $<

build/%: %.c $(GUESTHOUSE_HEADERS)
	@mkdir -p $(@D)
	$(CC) $(TEST_FLAGS) -o $@ $<
