// The score of two letters: by comparison (EQUAL), from the bytes of a profile (BYTES), or a table.
//
// A profile has the scores of a lane's rows for each letter of the target, four in a word. A dot
// product with one byte adds a score to H without unpacking it.
#pragma once
#include "grids/cuda/words.cuh"

enum { EQUAL, BYTES, TABLE };
constexpr int SPAN = C * (W + 3) + 32 * K * W;  // columns of all lanes of a block at one time
constexpr int LETTERS = SPAN <= 128 ? 128 : SPAN <= 256 ? 256 : SPAN <= 512 ? 512 : 1024;
constexpr int PACKS = (R + 3) / 4;
constexpr int WORDS = PACKS > 2 ? (PACKS + 3) / 4 * 4 : PACKS;  // words of 4, 8 or 16 bytes

template <int LETTER_BYTES> struct code_of { typedef int type; };
template <> struct code_of<8> { typedef long long type; };
typedef typename code_of<sizeof(X)>::type Code;

// `beside` equals `gap`, but the compiler does not merge the two additions.
struct Scores { T gap, extend, beside, match, mismatch; };

// The score of query code a and target code b is in row a, column b.
struct Alphabet {
  const signed char* bytes;
  const T* table;
  long long kinds;
};

template <int COUNT> struct alignas(COUNT > 4 ? 16 : COUNT * 4) Words { unsigned word[COUNT]; };
typedef Words<WORDS> Profile;

// Profiles, and other memory whose size the launch sets.
extern __shared__ __align__(16) unsigned char shared_bytes[];

DEVICE inline int lane() { return threadIdx.x % 32; }
DEVICE inline int warp() { return threadIdx.x / 32; }
// The warp's strip in the block; if other warps write the scores, two warps share a strip.
DEVICE inline int strip_of_warp() { return warp() % W; }

// A letter of the target as an index of its scores: a byte offset in a profile.
DEVICE inline Code as_code(X letter) {
  return SOURCE == BYTES ? Code(letter) * Code(32 * sizeof(Profile)) : Code(letter);
}

// The letters of the columns of all lanes, by column modulo LETTERS. The first C are stored twice, so
// that the next C columns of a lane are contiguous.
struct alignas(16) Codes {
  Code of[LETTERS + C];
  DEVICE void put(int column, Code code) {
    const unsigned place = unsigned(column) % LETTERS;
    of[place] = code;
    if (place < C) of[LETTERS + place] = code;
  }
  DEVICE const Code* from(int column) const { return of + unsigned(column) % LETTERS; }
  DEVICE void clear(int thread, int threads) {
    for (int k = thread; k < LETTERS + C; k += threads) of[k] = Code(0);
  }
};
// The codes of the columns of a step, read by one load.
struct alignas(K * sizeof(Code) > 16 ? 16 : K * sizeof(Code)) StepCodes { Code of[K]; };

// The rows of a lane.
struct Place {
  int row, rows;        // the first row, and the number of rows within the sequence
  int last_lane, last;  // lane and index of the last row within the sequence
  DEVICE bool has(int r) const { return r < rows && row + r >= 0; }
};

// Write the scores of a lane's rows with each letter of the target.
DEVICE inline void fill(Profile* profile, const X* query, const Place& at, const Alphabet& alphabet) {
  const int kinds = int(alphabet.kinds);
  int own[R];
#pragma unroll
  for (int r = 0; r < R; ++r) own[r] = at.has(r) ? int(query[at.row + r]) * kinds : -1;
  for (int letter = 0; letter < kinds; ++letter) {
    Profile scores;
#pragma unroll
    for (int w = 0; w < WORDS; ++w) scores.word[w] = 0;
#pragma unroll
    for (int r = 0; r < R; ++r) {
      // Rows outside the sequence must not score more than those within.
      const int score = own[r] < 0 ? -128 : alphabet.bytes[own[r] + letter];
      scores.word[r / 4] |= unsigned(score & 255) << 8 * (r % 4);
    }
    profile[letter * 32 + lane()] = scores;
  }
}

constexpr int AHEAD = (SOURCE == BYTES ? 2 : 1) * K;

// A lane's rows of the query, and their scores with the letters of its next step.
struct Letters {
  Code own[SOURCE == BYTES ? 1 : R];
  StepCodes next;
  Profile scores[K];
  const Profile* profile;

  DEVICE void begin(const X* query, const Place& at, const Alphabet& alphabet, Profile* filled) {
    profile = filled + lane();
    if (SOURCE == BYTES) return;
#pragma unroll
    for (int r = 0; r < R; ++r) {
      const Code none = SOURCE == TABLE ? 0 : -(1 << 20);  // no letter of 16 bits
      const Code letter = at.has(r) ? Code(query[at.row + r]) : none;
      own[SOURCE == BYTES ? 0 : r] = SOURCE == TABLE ? letter * Code(alphabet.kinds) : letter;
    }
  }
  // Prepare a lane's first step; letters before the first column are arbitrary.
  DEVICE void start(const Codes& codes) {
    next = *(const StepCodes*)codes.from(-K * lane());
    if (SOURCE == BYTES) look_ahead(*(const StepCodes*)codes.from(K - K * lane()));
  }
  // `codes` are the letters AHEAD columns further: a profile is read one step before its use.
  DEVICE void look_ahead(const StepCodes& codes) {
#pragma unroll
    for (int k = 0; k < K; ++k)
      if (SOURCE == BYTES) scores[k] = *(const Profile*)((const char*)profile + next.of[k]);
    next = codes;
  }
};

// The scores of a lane's rows with one letter.
struct Beside {
  Code letter;
  Profile scores;
  DEVICE Beside(const Letters& letters, int k) : letter(letters.next.of[k]), scores(letters.scores[k]) {}
  DEVICE T add(T score, int r, const Letters& letters, const Scores& s, const T* table) const {
    if constexpr (SOURCE == BYTES)
      return __dp4a(int(scores.word[r / 4]), 1 << 8 * (r % 4), score);
    else if constexpr (SOURCE == TABLE)
      return score + table[letters.own[r] + letter];
    else
      return score + (letters.own[r] == letter ? s.match : s.mismatch);
  }
};
