// What strips tell each other: sums of a line in one strip, and in all strips up to a group's end.
//
// A strip adds up what the strips of its group before it have told, and what the last strip of the
// group before has: nobody reads more than one group. Several threads share a line; what they read
// is under way while they do other work.
#pragma once
#include "grids/table/cuda/rows.cuh"

constexpr int LINES = DOWN ? H : W;
// Threads of a line.
constexpr int TELLERS = ALONE ? 1 : THREADS / LINES < 32 ? THREADS / LINES : 32;
static_assert(ALONE || LINES <= THREADS, "a line has a thread at least");

// Of this thread when it asks.
DEVICE inline int asked_line() { return threadIdx.x / TELLERS; }
DEVICE inline int teller() { return threadIdx.x % TELLERS; }

struct Ledger {
  Unit* descriptors;
  unsigned tag;
  DEVICE Unit* of_strip(const Images& all, int unit, long long line) const {
    return descriptors + (unit * (all.steps * LINES) + line) * UNITS;
  }
  DEVICE Unit* of_group(const Images& all, const Cursor& at, int group, long long line) const {
    const int groups = (int(all.strips) - 1) / GROUP + 1;
    return of_strip(all, int(all.count * all.strips) + at.image * groups + group, line);
  }
  DEVICE static long long place(const Cursor& at, int line) {
    return (long long)at.step * LINES + line;
  }
  // The sum up to the end of a group, if the strip is the last one of it.
  DEVICE void announce(const Images& all, const Cursor& at, int line, T sum) const {
    const int next = at.strip + 1;
    if (next % GROUP == 0 && next < int(all.strips))
      publish(of_group(all, at, at.strip / GROUP, place(at, line)), sum, tag);
  }
};

// What strips of a group have told of a line: those of this thread, and their sum in all threads.
struct Told {
  static constexpr int WORDS = (GROUP + TELLERS - 1) / TELLERS;
  const Unit* first;
  int count;  // of this thread
  Unit words[WORDS][UNITS];

  // `last` is after the last one of them.
  DEVICE void ask(const Images& all, const Unit* last, int told) {
    const int rest = asked_line() < LINES ? told - teller() : 0;
    count = rest > 0 ? (rest + TELLERS - 1) / TELLERS : 0;
    first = last - rest * stride(all);
    read(all);
  }
  DEVICE T sum(const Images& all, unsigned tag) {
    while (!is_complete(tag)) read(all);
    T sum = T(0);
#pragma unroll
    for (int w = 0; w < WORDS; ++w)
      if (w < count) sum = np_add(sum, value_of(words[w]));
#pragma unroll
    for (int distance = 1; distance < TELLERS; distance *= 2)
      sum = np_add(sum, from_lane<false>(sum, (threadIdx.x % 32) ^ distance));
    return sum;
  }

 private:
  DEVICE static long long stride(const Images& all) { return all.steps * LINES * UNITS; }
  DEVICE void read(const Images& all) {
#pragma unroll
    for (int w = 0; w < WORDS; ++w)
      if (w < count) load_words(words[w], first + w * TELLERS * stride(all));
  }
  DEVICE bool is_complete(unsigned tag) const {
    bool complete = true;
#pragma unroll
    for (int w = 0; w < WORDS; ++w) complete = complete && (w >= count || has_tag(words[w], tag));
    return complete;
  }
};

// The sum of a line in all strips before that of a tile. (Waiting for both kinds of words at once,
// and reading all again while one lacks, took up to half as long again.)
struct Question {
  Told strips;
  const Unit* group;  // null where none is before, or another thread asks
  Unit words[UNITS];

  DEVICE void ask(const Ledger& ledger, const Images& all, const Cursor& at) {
    const int own = at.strip / GROUP;
    const long long place = Ledger::place(at, asked_line());
    strips.ask(all, ledger.of_strip(all, at.unit, place), at.strip - own * GROUP);
    const bool asks = own > 0 && asked_line() < LINES && teller() == 0;
    group = asks ? ledger.of_group(all, at, own - 1, place) : nullptr;
    if (asks) load_words(words, group);
  }
  DEVICE T answer(const Ledger& ledger, const Images& all) {
    const T sum = strips.sum(all, ledger.tag);
    if (group == nullptr) return sum;
    while (!has_tag(words, ledger.tag)) load_words(words, group);
    return np_add(value_of(words), sum);
  }
};
