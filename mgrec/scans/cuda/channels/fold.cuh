// The states of all channels at the beginning of any tile, from the spans of all tiles before it.
//
// As rows/fold.cuh does it for one row: tiles form groups of 32, counted from the first, and the
// group of a channel is joined by one tree, so that the arithmetic does not know how many blocks
// share the work. Groups and channels are dealt to the quarters of several warps, whose spans are
// polled at once; a thread a channel goes from group to group.
#pragma once
#include "scans/cuda/channels/tile.cuh"
#include "scans/cuda/rows/fold.cuh"

constexpr int LOOKAHEAD = 32 * AHEAD, TEAMS = LOOKAHEAD / SHARE;
constexpr int GROUPS = 8;  // that are joined before the channels go on

DEVICE inline void look_together() {
  __syncwarp();
  asm volatile("bar.sync 6, %0;" ::"n"(LOOKAHEAD) : "memory");
}

// Where spans are published: those of the last tiles, a ring. A block publishes a tile once it has
// needed all tiles up to three turns before, so that nobody needs one that is eight turns older.
struct Board {
  Unit* descriptors;
  unsigned epoch, ring;
  DEVICE Board(Unit* space, unsigned epoch, const Channels& shape)
      : epoch(epoch), ring(8 * shape.team + 2 * GROUP) {
    descriptors = space + (long long)shape.first * ring * CHANNELS * UNITS;  // each team's own
  }
  DEVICE unsigned tag(unsigned wraps) const { return epoch * 4 + wraps % 4; }
  DEVICE void enter(unsigned tile, int channel, const Span& span) const {
    publish(descriptors, (long long)(tile % ring) * CHANNELS + channel, span, tag(tile / ring));
  }
};

// What one lane polls: RUN tiles of a group, of one channel.
struct Share {
  Span run[RUN];
  bool missing[RUN];
  Unit units[RUN][UNITS];  // as they were polled last
  unsigned place, wraps;
  int channel;

  // Of the tiles those in begin..end-1 count.
  DEVICE void begin(const Board& board, long long group, int own, long long begin, long long end) {
    const long long mine = group * GROUP + threadIdx.x % SHARE * RUN;
    channel = own;
    wraps = unsigned(mine) / board.ring;
    place = unsigned(mine) - wraps * board.ring;
#pragma unroll
    for (int k = 0; k < RUN; ++k) {
      run[k] = empty_span();
      missing[k] = mine + k >= begin && mine + k < end;
    }
  }
  DEVICE bool wraps_at(const Board& board, int k) const { return place + k >= board.ring; }
  DEVICE void ask(const Board& board) {
#pragma unroll
    for (int k = 0; k < RUN; ++k) {
      const long long other = place + k - (wraps_at(board, k) ? board.ring : 0);
      poll_if(missing[k], board.descriptors, other * CHANNELS + channel, units[k]);
    }
  }
  // After a __syncwarp(); false while a span is not published yet.
  DEVICE bool take(const Board& board) {
    bool waiting = false;
#pragma unroll
    for (int k = 0; k < RUN; ++k) {
      const unsigned tag = board.tag(wraps + wraps_at(board, k));
      missing[k] = missing[k] & !taken(units[k], tag, missing[k], run[k]);
      waiting = waiting | missing[k];
    }
    return !waiting;
  }
  // The join of the group, in the first of its SHARE lanes.
  DEVICE Span joined() const {
    Span span = join_run(run);
#pragma unroll
    for (int distance = 1; distance < SHARE; distance *= 2) {
      const Span above = from_above(span, distance);
      if (threadIdx.x % (2 * distance) == 0) span = join(span, above);
    }
    return span;
  }
};

// A poll waits behind the block's loads: the more there is to ask for, the more at once.
constexpr int AT_ONCE = CHANNELS <= 5 ? 1 : CHANNELS <= 10 ? 2 : CHANNELS <= 16 ? 3 : 4;

struct Front {
  Span folded[GROUPS][CHANNELS];  // in shared memory
};

// Of one channel, in its own thread.
struct ChannelSpine {
  Transfer::State state;   // at the beginning of the group, or of the outer part
  long long group, begin;  // the first tile of the outer part
};

// The states before `tile`. Calls doubt(tile) where one is doubtful.
template <class Doubt>
DEVICE inline Transfer::State advance(ChannelSpine& spine, Front& front, long long tile,
                                      const Board& board, Doubt doubt) {
  const int thread = int(threadIdx.x) - THREADS;
  while (true) {
    const long long left = tile / GROUP - spine.group + 1;
    const int groups = left < GROUPS ? int(left) : GROUPS, units = groups * CHANNELS;
    for (int first = 0; first < units; first += AT_ONCE * TEAMS) {
      Share shares[AT_ONCE];
      bool complete;
#pragma unroll
      for (int a = 0; a < AT_ONCE; ++a) {
        const int unit = first + a * TEAMS + thread / SHARE, number = unit / CHANNELS;
        shares[a].begin(board, spine.group + number, unit - number * CHANNELS, spine.begin,
                        unit < units ? tile : 0);
      }
      do {
        complete = true;
#pragma unroll
        for (int a = 0; a < AT_ONCE; ++a) shares[a].ask(board);
        __syncwarp();
#pragma unroll
        for (int a = 0; a < AT_ONCE; ++a) complete = shares[a].take(board) & complete;
      } while (!__all_sync(ALL, complete));
#pragma unroll
      for (int a = 0; a < AT_ONCE; ++a) {
        const int unit = first + a * TEAMS + thread / SHARE;
        const Span span = shares[a].joined();
        if (unit < units && thread % SHARE == 0)
          front.folded[unit / CHANNELS][shares[a].channel] = span;
      }
    }
    look_together();
    Transfer::State reached = spine.state;
    for (int k = 0; k < groups; ++k, ++spine.group) {
      const long long end = (spine.group + 1) * GROUP;
      if (thread < CHANNELS) {
        const Span span = front.folded[k][thread];
        reached = after(span, spine.state);
        if (GUARDED && is_doubtful(span, spine.state, reached)) doubt(end < tile ? end : tile);
      }
      if (tile < end) {
        look_together();
        return reached;
      }
      spine.state = reached;
    }
    look_together();
  }
}
