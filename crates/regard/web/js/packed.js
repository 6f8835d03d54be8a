// The binary format of responses: the length of a JSON header, the header, then the numbers.

/** The JSON header, the buffer, and the offset of the numbers in it. */
export function unpack(buffer) {
  const length = new DataView(buffer).getUint32(0, true);
  const about = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 4, length)));
  return [about, buffer, 4 + length];
}

/** The JSON header and the bytes after it. */
export function unpackBytes(answer) {
  const [about, buffer, start] = unpack(answer);
  return [about, new Uint8Array(buffer, start)];
}

/** The JSON header and the 32-bit numbers after it. */
export function unpackReals(answer) {
  const [about, buffer, start] = unpack(answer);
  return [about, new Float32Array(buffer, start, (buffer.byteLength - start) >> 2)];
}

/** Numbers from base64. */
export function realsOf(base64) {
  const text = atob(base64);
  const bytes = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i++) bytes[i] = text.charCodeAt(i);
  return new Float32Array(bytes.buffer);
}
