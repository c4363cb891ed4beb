/* Claims and their outcome as TAP: one line a claim, the exit code says whether all hold. */
#ifndef CHECK_H
#define CHECK_H

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

static int checks, failures;

#define CHECK(holds, ...) check((holds), __FILE__, __LINE__, gh_text(&arena, __VA_ARGS__))

static void check(bool holds, const char *file, int line, const char *claim) {
    printf("%sok %d - %s\n", holds ? "" : "not ", ++checks, claim);
    if (!holds) printf("#   %s:%d\n", file, line);
    failures += !holds;
}

/* Whether two texts, of which either may be NULL, are the same. */
static bool same(const char *one, const char *other) { return one && other ? !strcmp(one, other) : one == other; }

static int checked(void) {
    printf("1..%d\n", checks);
    return failures != 0;
}

#endif
