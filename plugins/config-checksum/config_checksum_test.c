/* The plugin natively, on the cases of the folder `cases`. */
#include "gh_test.h"

#include "config_checksum.c"

int main(int argc, char **argv) { return gh_test(&config_checksum, NULL, argc, argv); }
