// Few columns side by side, as samples of a few channels in time: tiles of STEPS steps.
//
// A tile with all columns is contiguous in memory, and moves by bulk copies. With more ALL_COLUMNS a tile has
// a line of them, up to 128 bytes wide, which threads copy in words: every block has to fold the spans of
// all columns of a tile. The last line may have fewer: results of its other channels are not stored. A team
// of blocks shares a line and folds its spans. A tile stays in shared memory until its states are written: a
// thread reads PART_STEPS consecutive steps twice, in batches, neighbouring threads neighbouring channels. To
// store them in registers in between would leave too few for the look-ahead warps.
#pragma once
#include "scans/cuda/spans.cuh"
#include "engines/cuda/memory/bulk.cuh"
#include "engines/cuda/memory/copies.cuh"

constexpr int VECTOR = 16 / int(sizeof(Stored));
// A thread has LANE_COLUMNS neighbouring columns, which it reads and writes as one word, and so many threads
// have all channels.
constexpr int LANES = CHANNELS / LANE_COLUMNS;
static_assert(CHANNELS % LANE_COLUMNS == 0, "threads have whole words");
constexpr int PARTS = THREADS / LANES / VECTOR * VECTOR;  // of a tile, one a thread
constexpr int PART_STEPS = BATCHES * ITEMS, STEPS = PARTS * PART_STEPS, TILE = STEPS * CHANNELS;
constexpr bool LINES = ALL_COLUMNS > 0;
constexpr int PITCH = LINES ? ALL_COLUMNS : CHANNELS;  // from step to step
constexpr bool COPIED = LINES && STAGES > 0;  // by threads
static_assert(!COPIED || (!BULK && STAGES >= DISTANCE + 2), "a tile is under way meanwhile");
static_assert(TILE * sizeof(Stored) % 16 == 0, "bulk copies are of whole 16 bytes");
// Streams with another alignment are copied from the multiple of 16 bytes before: one vector more.
constexpr int LOADED = TILE + (Source::SHIFTED ? VECTOR : 0);
// A tile is requested in pieces, at different times of a round: polls of spans wait behind all
// pending loads of a multiprocessor. 16 channels ran at 0.80 of the floor, in one piece at 0.70;
// but 4 channels, whose spans take one poll, at 0.83 and 0.95. Without a stage to spare, the next
// upsweep waits for all of the tile.
constexpr bool DIRECT = CHANNELS <= 4;
constexpr bool IN_PIECES = STAGES > DISTANCE + 1 && !DIRECT && (BULK || Source::STREAMS > 1);
constexpr int PIECES = IN_PIECES ? 3 : 1;

// Quotients of many numbers by one. A division takes some 25 instructions, of 64 bits five times as many.
struct Divisor {
  unsigned value, inverse;
  DEVICE explicit Divisor(unsigned value) : value(value), inverse(0xffffffffu / value) {}
  DEVICE unsigned quotient(unsigned number) const {
    const unsigned q = unsigned((unsigned long long)number * inverse >> 32);  // or one too few
    return q + (number - q * value >= value);
  }
};

constexpr unsigned LINES_OF_STEP = (PITCH + CHANNELS - 1) / CHANNELS;
constexpr bool IS_DIVIDED = PITCH % CHANNELS == 0;  // into whole lines
// Bytes that a thread copies at once.
constexpr int ALIGNED = (PITCH | CHANNELS) * int(sizeof(Stored));
constexpr int WORD = ALIGNED % 16 == 0 ? 16 : ALIGNED % 8 == 0 ? 8 : 4;
static_assert(!COPIED || ALIGNED % 4 == 0, "words of copies");

// Each outer part has LINES_OF_STEP lines, and a line `tiles` tiles. A team of `team` blocks goes through
// the lines first, first + teams, ...: `lines` of them. A block is its `rank`-th.
struct Channels {
  long long outers, steps, lines;
  Divisor tiles;
  unsigned first, teams, team, rank;
  DEVICE Channels(long long outers, long long steps)
      : outers(outers), steps(steps), tiles(unsigned((steps + STEPS - 1) / STEPS)) {
    team = LINES ? TEAM : gridDim.x;
    teams = gridDim.x / team;
    first = blockIdx.x % teams;  // neighbours read neighbouring columns
    rank = blockIdx.x / teams;
    lines = (outers * LINES_OF_STEP - first + teams - 1) / teams;
  }
  DEVICE long long count() const { return lines * tiles.value; }  // tiles of the team
};

DEVICE inline int in_time(int r) { return REVERSE ? ITEMS - 1 - r : r; }

// A tile among those of its team's lines, in time order.
struct Tile {
  long long first_tile, outer, first;  // the line's first tile; its first step in memory
  int steps, column, columns;          // steps and columns that exist; its first column
  DEVICE Tile(long long number, const Channels& shape) {
    const unsigned quotient = shape.tiles.quotient(unsigned(number));
    const unsigned before = quotient * shape.tiles.value, remainder = unsigned(number) - before;
    const unsigned line = LINES ? shape.first + quotient * shape.teams : quotient;
    first_tile = before;
    outer = line / LINES_OF_STEP;
    column = int(line % LINES_OF_STEP) * CHANNELS;
    first = (long long)(REVERSE ? shape.tiles.value - 1 - remainder : remainder) * STEPS;
    steps = shape.steps - first < STEPS ? int(shape.steps - first) : STEPS;
    columns = IS_DIVIDED || PITCH - column > CHANNELS ? CHANNELS : PITCH - column;
  }
  // Whether all steps exist; and all columns, where items are read one by one.
  DEVICE bool is_whole() const { return steps == STEPS && (COPIED || columns == CHANNELS); }
  DEVICE long long element(const Channels& shape) const {
    return (outer * shape.steps + first) * PITCH + column;
  }
  DEVICE long long row(int channel) const { return outer * PITCH + column + channel; }
};

// A thread's part of every tile; the last threads may have none.
struct Part {
  int channel, first;  // the first channel, the first step in memory
  bool exists;
  DEVICE Part() {
    const int index = int(threadIdx.x) / LANES;  // in time
    channel = int(threadIdx.x) % LANES * LANE_COLUMNS;
    exists = index < PARTS;
    first = (REVERSE ? PARTS - 1 - index : index) * PART_STEPS;
  }
  // ITEMS steps of it; `number` counts in time.
  DEVICE Part batch(int number) const {
    Part batch = *this;
    batch.first += (REVERSE ? BATCHES - 1 - number : number) * ITEMS;
    return batch;
  }
  DEVICE bool has(int r, const Tile& tile) const {
    return first + r < tile.steps && channel < tile.columns;
  }
};

struct Stages {
  unsigned long long* barriers;
  Stored* loads;   // STAGES × STREAMS × LOADED
  Stored* stores;  // STATES × TILE, of tiles that move by bulk copies
  DEVICE explicit Stages(unsigned char* memory) {
    barriers = reinterpret_cast<unsigned long long*>(memory);
    loads = reinterpret_cast<Stored*>(memory + 128);
    stores = loads + STAGES * Source::STREAMS * LOADED;
  }
  DEVICE Stored* stage(int k) const { return loads + k * Source::STREAMS * LOADED; }
};

// Request one piece of a tile, by one thread and the copy engine.
DEVICE inline void request(const Stages& stages, int k, const Source& source, long long number,
                           int piece, const Channels& shape) {
  if (!BULK || Source::STREAMS == 0 || number >= shape.count()) return;
  const Tile tile(number, shape);
  // With REVERSE a partial tile is the first: its barrier must complete a phase all the same.
  if (piece == 0)
    barrier_expect(stages.barriers + k,
                   tile.is_whole() ? Source::loaded(TILE, VECTOR) * unsigned(sizeof(Stored)) : 0);
  constexpr int LENGTH = (TILE / VECTOR + PIECES - 1) / PIECES * VECTOR;
  const int first = piece * LENGTH, rest = TILE - first, length = rest < LENGTH ? rest : LENGTH;
  if (!tile.is_whole() || length <= 0) return;
#pragma unroll
  for (int p = 0; p < Source::STREAMS; ++p)
    bulk_load(stages.stage(k) + p * LOADED + first,
              source.stream[p] + tile.element(shape) - Source::shift(p) + first,
              (length + (Source::shift(p) && length == rest ? VECTOR : 0)) * sizeof(Stored),
              stages.barriers + k);
}

template <int BYTES> struct WordOf { typedef uint4 type; };
template <> struct WordOf<8> { typedef unsigned long long type; };
template <> struct WordOf<4> { typedef unsigned type; };

// The same for a line, by all scanning threads. The last piece ends a group of copies.
DEVICE inline void request_words(const Stages& stages, int k, const Source& source,
                                   long long number, int piece, const Channels& shape) {
  if (COPIED && number < shape.count()) {
    const Tile tile(number, shape);
    typedef typename WordOf<WORD>::type Word;
    constexpr int NUMBERS = WORD / int(sizeof(Stored));
    constexpr int WORDS_OF_STEP = LINES ? CHANNELS / NUMBERS : 1, ROWS = THREADS / WORDS_OF_STEP;
    constexpr int LENGTH = (STEPS + PIECES * ROWS - 1) / (PIECES * ROWS) * ROWS;
    const int column = int(threadIdx.x) % WORDS_OF_STEP * NUMBERS;
    const int row = piece * LENGTH + int(threadIdx.x) / WORDS_OF_STEP;
    const int end = piece * LENGTH + LENGTH < STEPS ? piece * LENGTH + LENGTH : STEPS;
    if (tile.is_whole() && column < tile.columns && int(threadIdx.x) < ROWS * WORDS_OF_STEP)
#pragma unroll
      for (int p = 0; p < Source::STREAMS; ++p) {
        const Stored* from = source.stream[p] + tile.element(shape) + row * PITCH + column;
        Stored* to = stages.stage(k) + p * LOADED + row * CHANNELS + column;
#pragma unroll 4
        for (int r = row; r < end; r += ROWS) {
          copy_word(reinterpret_cast<Word*>(to), reinterpret_cast<const Word*>(from));
          from += ROWS * PITCH;
          to += ROWS * CHANNELS;
        }
      }
  }
  if (piece == PIECES - 1) copies_commit();
}

struct alignas(LANE_COLUMNS * alignof(Stored)) ColumnsOfLane { Stored of[LANE_COLUMNS]; };

// Calls visit(r, address) for a thread's steps in memory order, of a tile whose steps are DISTANT numbers
// apart. If all steps exist (WHOLE) only the first address is computed: a test of each step took ten times
// its arithmetic.
template <bool WHOLE, int DISTANT, class Number, class Visit>
DEVICE inline void visit_items(Number* numbers, const Tile& tile, const Part& part, Visit visit) {
  numbers += part.first * DISTANT + part.channel;
#pragma unroll
  for (int r = 0; r < ITEMS; ++r)
    if (WHOLE || part.has(r, tile)) visit(r, numbers + r * DISTANT);
}

template <bool WHOLE>
DEVICE inline void read_items(const Stages& stages, int k, const Source& source, const Tile& tile,
                              const Part& part, const Channels& shape,
                              Items (&items)[LANE_COLUMNS]) {
#pragma unroll
  for (int p = 0; p < Source::STREAMS; ++p) {
    const auto take = [&](int r, const Stored* from) {
      const ColumnsOfLane columns = *reinterpret_cast<const ColumnsOfLane*>(from);
#pragma unroll
      for (int c = 0; c < LANE_COLUMNS; ++c) items[c].v[p][r] = cast<T>(columns.of[c]);
    };
    if (WHOLE && (BULK || COPIED)) {
      visit_items<WHOLE, CHANNELS>(stages.stage(k) + p * LOADED + Source::shift(p), tile, part, take);
    } else {
      visit_items<WHOLE, PITCH>(source.stream[p] + tile.element(shape), tile, part, take);
    }
  }
#pragma unroll
  for (int c = 0; c < LANE_COLUMNS; ++c) {
    items[c].step = tile.first + part.first;
    if (VARYING > Source::STREAMS)
      source.complete(items[c], tile.outer, items[c].step,
                      tile.column + min(part.channel + c, tile.columns - 1), shape.outers, shape.steps);
    source.lift_items(items[c]);
  }
}

typedef T States[Transfer::STATES][ITEMS];  // of a column of a batch

// Whole tiles of all columns are written through shared memory in one bulk store, others word by word.
template <bool WHOLE>
DEVICE inline void write_items(const Stages& stages, Stored* const (&results)[Transfer::STATES],
                               const Tile& tile, const Part& part, const Channels& shape,
                               const States (&w)[LANE_COLUMNS]) {
#pragma unroll
  for (int q = 0; q < Transfer::STATES && (IS_DIVIDED || part.channel < tile.columns); ++q) {
    const auto put = [&](int r, Stored* to) {
      ColumnsOfLane columns;
#pragma unroll
      for (int c = 0; c < LANE_COLUMNS; ++c) columns.of[c] = cast<Stored>(w[c][q][r]);
      *reinterpret_cast<ColumnsOfLane*>(to) = columns;
    };
    if (WHOLE && BULK) visit_items<WHOLE, CHANNELS>(stages.stores + q * TILE, tile, part, put);
    else visit_items<WHOLE, PITCH>(results[q] + tile.element(shape), tile, part, put);
  }
}

DEVICE inline void store(const Stages& stages, Stored* const (&results)[Transfer::STATES],
                         const Tile& tile, const Channels& shape) {
#pragma unroll
  for (int q = 0; q < Transfer::STATES; ++q)
    bulk_store(results[q] + tile.element(shape), stages.stores + q * TILE, TILE * sizeof(Stored));
  bulk_commit();
}

// Scan of the spans of a tile's parts, for each channel, across the threads of a block. A warp has parts of
// every channel, LANES lanes apart, and its last ones are those of its last lanes.
typedef Span Spans[LANE_COLUMNS];  // of a thread
typedef Span WarpSpans[WARPS][CHANNELS];

constexpr bool FILLED = PARTS * LANES == THREADS;  // every thread has a part

// Replaces the span of each thread and channel by the join of those before it; the last LANES threads receive
// those of the whole tile in `total`. Contains one barrier; `totals` may be reused after the caller's next
// one. With ALL_MAPS every thread has a map.
template <bool ALL_MAPS>
DEVICE inline void channel_scan(Spans& spans, Spans& total, const Part& part, WarpSpans& totals) {
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const bool is_first = LANES == 32 || lane < LANES;
#pragma unroll
  for (int c = 0; c < LANE_COLUMNS; ++c) {
    Span inclusive = spans[c];
#pragma unroll
    for (int distance = LANES; distance < 32; distance *= 2) {
      const Span joined = ALL_MAPS ? join_maps(from_below(map_of(inclusive), distance), inclusive)
                                   : join(from_below(inclusive, distance), inclusive);
      if (lane >= distance) inclusive = joined;
    }
    total[c] = inclusive;
    spans[c] = LANES < 32 ? from_below(inclusive, LANES) : empty_span();
    if (lane >= 32 - LANES) totals[warp][part.channel + c] = inclusive;
  }
  __syncwarp();
  synchronize();
#pragma unroll
  for (int c = 0; c < LANE_COLUMNS; ++c) {
    if (warp == 0) {
      if (is_first) spans[c] = empty_span();
      continue;
    }
    Span earlier = totals[0][part.channel + c];
    for (int k = 1; k < warp; ++k) earlier = join_known<ALL_MAPS>(earlier, totals[k][part.channel + c]);
    spans[c] = is_first ? earlier : join_known<ALL_MAPS>(earlier, spans[c]);
    total[c] = join_known<ALL_MAPS>(earlier, total[c]);
  }
}
