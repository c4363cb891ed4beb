/* What sdk_test.c asks. */
#include "../guesthouse.h"

gh_function says_nothing, says_how_many, has_no_children, posts_json, is_all_raw;
gh_function fails_without_a_word, fails_after_effects, writes_nonsense, labels_with_bytes, tells_what_it_sees;
