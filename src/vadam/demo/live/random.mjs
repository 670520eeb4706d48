// Random numbers from a seed: the same stream as numpy.random.RandomState(seed).

const SIZE = 624;

export class RandomState {
  // The Mersenne Twister, MT19937.
  constructor(seed) {
    this.state = new Uint32Array(SIZE);
    this.state[0] = seed;
    for (let i = 1; i < SIZE; i++) {
      const last = this.state[i - 1];
      this.state[i] = Math.imul(1812433253, last ^ (last >>> 30)) + i;
    }
    this.next = SIZE;
    this.spare = null;
  }

  // Return 32 random bits.
  bits() {
    if (this.next === SIZE) this.twist();
    let y = this.state[this.next++];
    y ^= y >>> 11;
    y ^= (y << 7) & 0x9d2c5680;
    y ^= (y << 15) & 0xefc60000;
    return (y ^ (y >>> 18)) >>> 0;
  }

  twist() {
    const x = this.state;
    for (let i = 0; i < SIZE; i++) {
      const y = (x[i] & 0x80000000) | (x[(i + 1) % SIZE] & 0x7fffffff);
      x[i] = x[(i + 397) % SIZE] ^ (y >>> 1) ^ (y & 1 ? 0x9908b0df : 0);
    }
    this.next = 0;
  }

  // Return a number from [0, 1) with 53 random bits.
  uniform() {
    const high = this.bits() >>> 5;
    const low = this.bits() >>> 6;
    return (high * 67108864 + low) / 9007199254740992;
  }

  // Return a standard normal number: the polar method, which makes two at a time.
  normal() {
    if (this.spare !== null) {
      const spare = this.spare;
      this.spare = null;
      return spare;
    }
    let x, y, r2;
    do {
      x = 2 * this.uniform() - 1;
      y = 2 * this.uniform() - 1;
      r2 = x * x + y * y;
    } while (r2 >= 1 || r2 === 0);
    const scale = Math.sqrt((-2 * Math.log(r2)) / r2);
    this.spare = scale * x;
    return scale * y;
  }

  // Return M of the numbers 0, ..., N - 1 without repetition: the start of a Fisher-Yates shuffle.
  subset(M, N) {
    const all = Array.from({ length: N }, (_, i) => i);
    for (let i = 0; i < M; i++) {
      const j = i + Math.floor(this.uniform() * (N - i));
      [all[i], all[j]] = [all[j], all[i]];
    }
    return all.slice(0, M);
  }
}
