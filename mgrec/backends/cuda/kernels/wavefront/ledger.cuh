// What strips tell each other: sums of a line in one strip, and in all strips up to a group's end.
//
// A strip adds up what the strips of its group before it have told, and what the last strip of the
// group before has: nobody reads more than one group. Several threads share a line; what they read
// is under way while they do other work.
#pragma once
#include "wavefront/tile.cuh"

constexpr int LINES = DOWN ? H : W;
// Threads of a line.
constexpr int TELLERS = ALONE ? 1 : THREADS / LINES < 32 ? THREADS / LINES : 32;
constexpr int WORDS = (GROUP + TELLERS - 1) / TELLERS;                // strips of a thread
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

// The sum of a line in all strips before that of a tile.
struct Question {
  const Unit *strips, *group;  // of the first strip of this thread; null where no group is before
  int count;                   // strips of this thread
  Unit words[WORDS + 1][UNITS];

  DEVICE void ask(const Ledger& ledger, const Images& all, const Cursor& at) {
    const int own = at.strip / GROUP, rest = at.strip - own * GROUP - teller();
    const long long place = Ledger::place(at, asked_line());
    const bool has_line = asked_line() < LINES;
    count = has_line && rest > 0 ? (rest + TELLERS - 1) / TELLERS : 0;
    strips = ledger.of_strip(all, at.unit - rest, place);
    group = own > 0 && has_line && teller() == 0 ? ledger.of_group(all, at, own - 1, place) : nullptr;
    read(all);
  }
  DEVICE T answer(const Ledger& ledger, const Images& all) {
    while (!is_complete(ledger.tag)) read(all);
    T sum = T(0);
#pragma unroll
    for (int w = 0; w < WORDS; ++w)
      if (w < count) sum = np_add(sum, value_of(words[w]));
#pragma unroll
    for (int distance = 1; distance < TELLERS; distance *= 2)
      sum = np_add(sum, from_lane<false>(sum, (threadIdx.x % 32) ^ distance));
    return group == nullptr ? sum : np_add(value_of(words[WORDS]), sum);
  }

 private:
  DEVICE void read(const Images& all) {
    const long long stride = all.steps * LINES * UNITS * TELLERS;
#pragma unroll
    for (int w = 0; w < WORDS; ++w)
      if (w < count) load_words(words[w], strips + w * stride);
    if (group != nullptr) load_words(words[WORDS], group);
  }
  DEVICE bool is_complete(unsigned tag) const {
    bool complete = group == nullptr || has_tag(words[WORDS], tag);
#pragma unroll
    for (int w = 0; w < WORDS; ++w) complete = complete && (w >= count || has_tag(words[w], tag));
    return complete;
  }
};
