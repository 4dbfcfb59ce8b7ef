// The origin of requests: the address of the client, and the network by which addresses are counted.
import { isIPv6, type Socket } from 'node:net';
import type { FastifyRequest } from 'fastify';

/** By request; by connection if the request was not forwarded. */
const addresses = new WeakMap<FastifyRequest | Socket, string>();

/**
 * Returns the IP address of a request's client, without a port. This is the peer of the connection; or, if the peer is a
 * proxy that TRUST_PROXY names, the last entry of X-Forwarded-For that is not such a proxy. A proxy may write any text
 * there. The address is empty if the connection closed before the request was handled. It is read once, since
 * X-Forwarded-For can be long.
 */
export function addressOf(request: FastifyRequest): string {
  const key = request.headers['x-forwarded-for'] === undefined ? request.raw.socket : request;
  let address = addresses.get(key);
  if (address === undefined) {
    address = plainAddress(request.ip);
    addresses.set(key, address);
  }
  return address;
}

/** Removes the port and the brackets that a proxy may add, and the prefix of an IPv4 address on an IPv6 socket. */
function plainAddress(text: string | undefined): string {
  if (text === undefined) return '';
  const [, ipv6, ipv4] = /^(?:\[([^\]]*)\]|([\d.]+))(?::\d+)?$/.exec(text) ?? [];
  const address = ipv6 ?? ipv4 ?? text;
  return /^::ffff:([\d.]+)$/i.exec(address)?.[1] ?? address;
}

/**
 * Returns the network of an address, by which a service counts callers that it does not know: of an IPv6 address its /64,
 * since one client has all addresses of that; any other text is returned as it is.
 * @param bits - The length of the prefix of IPv6 networks, a multiple of 16.
 * @example
 * networkOf('2001:db8:1:2:3:4:5:6'); // '2001:db8:1:2::/64'
 * networkOf('192.0.2.1'); // '192.0.2.1'
 */
export function networkOf(address: string, bits = 64): string {
  // The first condition is the cheaper one.
  if (!address.includes(':') || !isIPv6(address)) return address;
  // The form that URLs give it is the same for equal addresses, without the zone.
  const { hostname } = new URL(`http://[${address.replace(/%.*/s, '')}]`);
  const [start = [], end = []] = hostname
    .slice(1, -1)
    .split('::')
    .map((part) => (part === '' ? [] : part.split(':')));
  const zeros = Array<string>(8 - start.length - end.length).fill('0');
  const groups = [...start, ...zeros, ...end];
  const [high = 0, low = 0] = groups.slice(6).map((group) => parseInt(group, 16));
  // An IPv4 address in the other notation.
  if (groups.slice(0, 6).join(':') === '0:0:0:0:0:ffff')
    return [high >> 8, high & 255, low >> 8, low & 255].join('.');
  return `${groups.slice(0, bits / 16).join(':')}::/${bits}`;
}
