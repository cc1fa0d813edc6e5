// Few columns side by side, as samples of a few channels in time: tiles of STEPS steps.
//
// A tile with all columns is contiguous in memory, and moves by bulk copies. With more columns a tile
// has one of LINES, up to 128 bytes wide, which threads copy in vectors: every block has to fold the spans of
// all columns of a tile. A team of blocks shares a line and folds its spans. A tile stays in shared
// memory until its states are written: a thread reads ITEMS consecutive steps of one channel twice,
// neighbouring threads neighbouring channels. To store them in registers in between would leave too few
// for the look-ahead warps.
#pragma once
#include "scans/cuda/spans.cuh"
#include "engines/cuda/memory/bulk.cuh"
#include "engines/cuda/memory/copies.cuh"

constexpr int VECTOR = 16 / int(sizeof(Stored));
constexpr int PARTS = THREADS / CHANNELS / VECTOR * VECTOR;  // of a tile, one a thread each channel
constexpr int STEPS = PARTS * ITEMS, TILE = STEPS * CHANNELS;
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

// Each outer part has `inners` columns in `groups` lines, and a line `tiles` tiles. A team of `team`
// blocks goes through the lines first, first + teams, ...: `lines` of them. A block is its `rank`-th.
struct Channels {
  long long outers, steps, inners, tiles, lines;
  unsigned groups, first, teams, team, rank;
  DEVICE Channels(long long outers, long long steps, long long inners)
      : outers(outers), steps(steps), inners(inners), tiles((steps + STEPS - 1) / STEPS) {
    groups = unsigned(inners / CHANNELS);
    team = LINES ? TEAM : gridDim.x;
    teams = gridDim.x / team;
    first = blockIdx.x % teams;  // neighbours read neighbouring columns
    rank = blockIdx.x / teams;
    lines = (outers * groups - first + teams - 1) / teams;
  }
  DEVICE long long pitch() const { return LINES ? inners : CHANNELS; }
  DEVICE long long count() const { return lines * tiles; }  // tiles of the team
};

DEVICE inline int in_time(int r) { return REVERSE ? ITEMS - 1 - r : r; }

// A tile among those of its team's lines, in time order.
struct Tile {
  long long first_tile, outer, first;  // the line's first tile; its first step in memory
  int steps, column;                   // that exist; its first
  DEVICE Tile(long long number, const Channels& shape) {
    // A division of 64 bits takes five times as long.
    const unsigned quotient = unsigned(number) / unsigned(shape.tiles);
    const unsigned remainder = unsigned(number) - quotient * unsigned(shape.tiles);
    const unsigned line = LINES ? shape.first + quotient * shape.teams : quotient;
    first_tile = (long long)quotient * shape.tiles;
    outer = LINES ? line / shape.groups : line;
    column = LINES ? int(line - unsigned(outer) * shape.groups) * CHANNELS : 0;
    first = (long long)(REVERSE ? unsigned(shape.tiles) - 1 - remainder : remainder) * STEPS;
    steps = shape.steps - first < STEPS ? int(shape.steps - first) : STEPS;
  }
  DEVICE bool is_whole() const { return steps == STEPS; }
  DEVICE long long element(const Channels& shape) const {
    return (outer * shape.steps + first) * shape.pitch() + column;
  }
  DEVICE long long row(int channel, const Channels& shape) const {
    return outer * shape.pitch() + column + channel;
  }
};

// A thread's part of every tile; the last threads may have none.
struct Part {
  int channel, index;  // `index` among the channel's parts, in time order
  bool exists;
  DEVICE Part() {
    index = int(threadIdx.x) / CHANNELS;
    channel = int(threadIdx.x) % CHANNELS;
    exists = index < PARTS;
  }
  DEVICE int first() const { return (REVERSE ? PARTS - 1 - index : index) * ITEMS; }
  DEVICE bool has(int r, const Tile& tile) const { return first() + r < tile.steps; }
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

// The same for a line, by all scanning threads. The last piece ends a group of copies.
DEVICE inline void request_vectors(const Stages& stages, int k, const Source& source,
                                   long long number, int piece, const Channels& shape) {
  if (COPIED && number < shape.count()) {
    const Tile tile(number, shape);
    constexpr int VECTORS = LINES ? CHANNELS / VECTOR : 1, ROWS = THREADS / VECTORS;
    constexpr int LENGTH = (STEPS + PIECES * ROWS - 1) / (PIECES * ROWS) * ROWS;
    const int vector = int(threadIdx.x) % VECTORS * VECTOR;
    const int row = piece * LENGTH + int(threadIdx.x) / VECTORS;
    const int end = piece * LENGTH + LENGTH < STEPS ? piece * LENGTH + LENGTH : STEPS;
    if (tile.is_whole())
#pragma unroll
      for (int p = 0; p < Source::STREAMS; ++p) {
        const Stored* from = source.stream[p] + tile.element(shape) + row * shape.inners + vector;
        Stored* to = stages.stage(k) + p * LOADED + row * CHANNELS + vector;
#pragma unroll 4
        for (int r = row; r < end; r += ROWS) {
          copy_word(reinterpret_cast<uint4*>(to), reinterpret_cast<const uint4*>(from));
          from += ROWS * shape.inners;
          to += ROWS * CHANNELS;
        }
      }
  }
  if (piece == PIECES - 1) copies_commit();
}

// Calls visit(r, element in a tile whose steps are `pitch` apart) for a thread's steps in memory order.
// If all steps exist (WHOLE) only the first address is computed: a test of each step took ten times its
// arithmetic.
template <bool WHOLE, class Pitch, class Visit>
DEVICE inline void visit_items(const Tile& tile, const Part& part, Pitch pitch, Visit visit) {
  const Pitch first = part.first() * pitch + part.channel;
#pragma unroll
  for (int r = 0; r < ITEMS; ++r)
    if (WHOLE || part.has(r, tile)) visit(r, first + r * pitch);
}

template <bool WHOLE>
DEVICE inline void read_items(const Stages& stages, int k, const Source& source, const Tile& tile,
                              const Part& part, const Channels& shape, Items& items) {
#pragma unroll
  for (int p = 0; p < Source::STREAMS; ++p)
    if (WHOLE && (BULK || COPIED)) {
      const Stored* const from = stages.stage(k) + p * LOADED + Source::shift(p);
      visit_items<WHOLE>(tile, part, CHANNELS, [&](int r, int e) { items.v[p][r] = cast<T>(from[e]); });
    } else {
      const Stored* const from = source.stream[p] + tile.element(shape);
      visit_items<WHOLE>(tile, part, shape.pitch(),
                         [&](int r, long long e) { items.v[p][r] = cast<T>(from[e]); });
    }
  items.step = tile.first + part.first();
  if (VARYING > Source::STREAMS)
    source.complete(items, tile.outer, items.step, tile.column + part.channel, shape.outers,
                    shape.steps);
  source.lift_items(items);
}

// Whole tiles of all columns are written through shared memory in one bulk store, others element by
// element.
template <bool WHOLE>
DEVICE inline void write_items(const Stages& stages, Stored* const (&results)[Transfer::STATES],
                               const Tile& tile, const Part& part, const Channels& shape,
                               const T (&w)[Transfer::STATES][ITEMS]) {
#pragma unroll
  for (int q = 0; q < Transfer::STATES; ++q)
    if (WHOLE && BULK) {
      Stored* const to = stages.stores + q * TILE;
      visit_items<WHOLE>(tile, part, CHANNELS, [&](int r, int e) { to[e] = cast<Stored>(w[q][r]); });
    } else {
      Stored* const to = results[q] + tile.element(shape);
      visit_items<WHOLE>(tile, part, shape.pitch(),
                         [&](int r, long long e) { to[e] = cast<Stored>(w[q][r]); });
    }
}

DEVICE inline void store(const Stages& stages, Stored* const (&results)[Transfer::STATES],
                         const Tile& tile, const Channels& shape) {
#pragma unroll
  for (int q = 0; q < Transfer::STATES; ++q)
    bulk_store(results[q] + tile.element(shape), stages.stores + q * TILE, TILE * sizeof(Stored));
  bulk_commit();
}


// Scan of the spans of a tile's parts, for each channel, across the threads of a block.

constexpr int RAKE = 8;  // parts that one thread joins
constexpr int RAKES = (PARTS + RAKE - 1) / RAKE;

struct ScanStorage {  // in shared memory
  Span parts[THREADS];
  Span rakes[RAKES * CHANNELS];
};

// Contains two barriers; the storage may be reused after the caller's next one.
DEVICE inline BlockScan channel_scan(const Span& mine, const Part& part, ScanStorage& storage) {
  storage.parts[threadIdx.x] = mine;
  __syncwarp();
  synchronize();
  if (threadIdx.x < RAKES * CHANNELS) {
    Span* const from = storage.parts + part.index * RAKE * CHANNELS + part.channel;
    Span prefix = empty_span();
#pragma unroll
    for (int k = 0; k < RAKE; ++k) {
      if (part.index * RAKE + k >= PARTS) continue;
      const Span next = from[k * CHANNELS];
      from[k * CHANNELS] = prefix;
      prefix = join(prefix, next);
    }
    storage.rakes[threadIdx.x] = prefix;
  }
  __syncwarp();
  synchronize();
  BlockScan scan = {empty_span(), empty_span()};
  const int rake = part.index / RAKE;
  for (int k = 0; k < RAKES; ++k) {
    if (k == rake) scan.before = join(scan.total, storage.parts[threadIdx.x]);
    scan.total = join(scan.total, storage.rakes[k * CHANNELS + part.channel]);
  }
  return scan;
}
