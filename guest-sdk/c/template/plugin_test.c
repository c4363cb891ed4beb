#include "gh_test.h" /* before all else: the plugin's main stays out */

#include "plugin.c"

int main(int argc, char **argv) { return gh_test(&plugin, NULL, argc, argv); }
