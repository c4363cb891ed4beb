/* The conformance suite natively: the same guest, the same cases, no WebAssembly. */
#include "../gh_test.h"

#include "../conformance/conformance.c"

int main(int argc, char **argv) {
    static const gh_skip skips[] = {
        {"clock", "natively the clock is the machine's, not the observation's"},
        {"random", "natively the random source is the machine's, not one constant stream"},
        {0},
    };
    return gh_test(&conformance, skips, argc, argv);
}
