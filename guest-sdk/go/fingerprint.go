package guesthouse

import (
	"fmt"
	"hash/fnv"
)

// Fingerprint is 16 hexadecimal digits that stand for these texts in this order, the same in every SDK and on every machine:
// for keys of effects. It tells changes apart and is no protection against somebody who looks for two texts with one.
func Fingerprint(texts ...string) string {
	hash := fnv.New64a()
	for _, text := range texts {
		// Each text is ended by a byte that UTF-8 does not have, so that it counts as a whole.
		hash.Write(append([]byte(text), 0xff))
	}
	return fmt.Sprintf("%016x", hash.Sum64())
}
