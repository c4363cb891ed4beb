/**
 * 16 hexadecimal digits that stand for these texts in this order: FNV-1a of 64 bits, the same in the SDK of every language.
 * Each text counts as a whole, since a byte that UTF-8 does not have ends it.
 */
export function fingerprint(texts) {
  let hash = 0xcbf29ce484222325n;
  const add = (byte) => (hash = BigInt.asUintN(64, (hash ^ BigInt(byte)) * 0x100000001b3n));
  for (const text of texts) {
    for (const [, escaped, plain] of encodeURIComponent(text).matchAll(/%(..)|(.)/g)) {
      add(plain === undefined ? parseInt(escaped, 16) : plain.charCodeAt(0));
    }
    add(0xff);
  }
  return hash.toString(16).padStart(16, "0");
}
