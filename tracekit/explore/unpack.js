// The explorer of tracekit. No library, nothing loaded, nothing sent: all data is in this file.
// unpack.js: blocks of data. Base64 of deflate of: length of the facts (4 bytes), facts as JSON, arrays.
"use strict";

function bytesOf(text) {
  if (Uint8Array.fromBase64) return Uint8Array.fromBase64(text);
  const plain = atob(text);
  const bytes = new Uint8Array(plain.length);
  for (let i = 0; i < plain.length; i++) bytes[i] = plain.charCodeAt(i);
  return bytes;
}

/** Read a block and remove it from the page: {facts, array(where)}. */
async function unpack(id) {
  const element = document.getElementById(id);
  const bytes = bytesOf(element.textContent.trim());
  element.remove();
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  const buffer = await new Response(stream).arrayBuffer();
  const length = new DataView(buffer).getUint32(0, true);
  const decoder = new TextDecoder();
  const facts = JSON.parse(decoder.decode(new Uint8Array(buffer, 4, length)));
  const base = 4 + length;
  const kinds = { u1: Uint8Array, u2: Uint16Array, u4: Uint32Array, f4: Float32Array, f8: Float64Array };

  function array(where) {
    const from = base + where.at;
    if (kinds[where.type]) return new kinds[where.type](buffer.slice(from, from + where.bytes));
    if (where.type === "json") return JSON.parse(decoder.decode(new Uint8Array(buffer, from, where.bytes)));
    const planes = new Uint8Array(buffer, from, where.bytes);
    const n = where.n,
      values = new Uint32Array(n);
    let last = 0;
    for (let i = 0; i < n; i++) {
      const value = planes[i] | (planes[n + i] << 8) | (planes[2 * n + i] << 16) | (planes[3 * n + i] << 24);
      values[i] = where.type === "rising" ? (last += value) : value;
    }
    return values;
  }
  return { facts, array };
}
