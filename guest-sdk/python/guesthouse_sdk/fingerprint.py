"""A short name for what many texts say together: for keys of effects, and for names made of longer names."""

from collections.abc import Iterable


def fingerprint(texts: Iterable[str]) -> str:
    """16 hexadecimal digits that stand for these texts in this order, the same in every language's SDK and for ever.

    Every text counts as a whole: `["ab", ""]` and `["a", "b"]` differ. It tells changes apart and is no protection against
    somebody who looks for two texts with one fingerprint.
    """
    # FNV-1a, 64 bits (www.isthe.com/chongo/tech/comp/fnv), each text ended by a byte that UTF-8 does not have.
    value = 0xCBF29CE484222325
    for text in texts:
        for byte in text.encode() + b"\xff":
            value = (value ^ byte) * 0x100000001B3 & 0xFFFFFFFFFFFFFFFF
    return f"{value:016x}"
