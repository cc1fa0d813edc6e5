// What two letters score: equal or not (EQUAL), from bytes of a profile (BYTES), or from a table.
//
// A profile has, for every letter of the target, the scores of a lane's rows, four in a word: a
// dot product with one of its bytes adds a score to H without unpacking it.
#pragma once
#include "grids/cuda/words.cuh"

enum { EQUAL, BYTES, TABLE };
constexpr int SPAN = C * (W + 3) + 32 * K * W;  // columns beside which a block's lanes are at once
constexpr int LETTERS = SPAN <= 128 ? 128 : SPAN <= 256 ? 256 : SPAN <= 512 ? 512 : 1024;
constexpr int PACKS = (R + 3) / 4;
constexpr int WORDS = PACKS > 2 ? (PACKS + 3) / 4 * 4 : PACKS;  // words of 4, 8 or 16 bytes

template <int LETTER_BYTES> struct code_of { typedef int type; };
template <> struct code_of<8> { typedef long long type; };
typedef typename code_of<sizeof(X)>::type Code;

// `beside` is `gap` once more: two additions that a compiler does not take for one.
struct Scores { T gap, extend, beside, match, mismatch; };

// score(a, b) of query code a and target code b is in row a, column b.
struct Alphabet {
  const signed char* bytes;
  const T* table;
  long long kinds;
};

template <int COUNT> struct alignas(COUNT > 4 ? 16 : COUNT * 4) Words { unsigned word[COUNT]; };
typedef Words<WORDS> Profile;

// Profiles, and what else a kernel lets its launch size.
extern __shared__ __align__(16) unsigned char shared_bytes[];

DEVICE inline int lane() { return threadIdx.x % 32; }
DEVICE inline int warp() { return threadIdx.x / 32; }
// Of the block's strips: where others write its scores, two warps have one.
DEVICE inline int strip_of_warp() { return warp() % W; }

// Letters of a target as a warp looks for their scores: those of a profile are that many bytes on.
DEVICE inline Code as_code(X letter) {
  return SOURCE == BYTES ? Code(letter) * Code(32 * sizeof(Profile)) : Code(letter);
}

// The letters of the columns beside which the lanes are, by column modulo LETTERS. The first C are
// there twice, so that the next C columns of a lane follow each other in memory.
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
// Of the columns of a step, read at once.
struct alignas(K * sizeof(Code) > 16 ? 16 : K * sizeof(Code)) StepCodes { Code of[K]; };

// Which rows of a strip a lane has.
struct Place {
  int row, rows;        // the first, and how many until the end of the sequence
  int last_lane, last;  // where the last row is that anybody asks for
  DEVICE bool has(int r) const { return r < rows && row + r >= 0; }
};

// What a lane's rows score beside every letter of a target.
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
      // Rows outside the sequence shall not score more than those within.
      const int score = own[r] < 0 ? -128 : alphabet.bytes[own[r] + letter];
      scores.word[r / 4] |= unsigned(score & 255) << 8 * (r % 4);
    }
    profile[letter * 32 + lane()] = scores;
  }
}

constexpr int AHEAD = (SOURCE == BYTES ? 2 : 1) * K;

// A lane's rows of the query, and what they score beside the letters of its next step.
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
  // Before a lane's first step: letters before the first column are any.
  DEVICE void start(const Codes& codes) {
    next = *(const StepCodes*)codes.from(-K * lane());
    if (SOURCE == BYTES) look_ahead(*(const StepCodes*)codes.from(K - K * lane()));
  }
  // `codes` are the letters AHEAD columns on: a profile is read a step before its scores count.
  DEVICE void look_ahead(const StepCodes& codes) {
#pragma unroll
    for (int k = 0; k < K; ++k)
      if (SOURCE == BYTES) scores[k] = *(const Profile*)((const char*)profile + next.of[k]);
    next = codes;
  }
};

// Scores beside one letter.
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
