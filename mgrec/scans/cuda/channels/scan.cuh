// Scan of the spans of a tile's parts, for each channel, across the threads of a block.
#pragma once
#include "scans/cuda/channels/tile.cuh"

constexpr int RAKE = 8;  // parts that one thread joins
constexpr int RAKES = (PARTS + RAKE - 1) / RAKE;

struct Desk {  // in shared memory
  Span parts[THREADS];
  Span rakes[RAKES * CHANNELS];
};

// Holds two barriers; the desk may be used again after the caller's next one.
DEVICE inline BlockScan channel_scan(const Span& mine, const Part& part, Desk& desk) {
  desk.parts[threadIdx.x] = mine;
  __syncwarp();
  synchronize();
  if (threadIdx.x < RAKES * CHANNELS) {
    Span* const from = desk.parts + part.place * RAKE * CHANNELS + part.channel;
    Span run = empty_span();
#pragma unroll
    for (int k = 0; k < RAKE; ++k) {
      if (part.place * RAKE + k >= PARTS) continue;
      const Span next = from[k * CHANNELS];
      from[k * CHANNELS] = run;
      run = join(run, next);
    }
    desk.rakes[threadIdx.x] = run;
  }
  __syncwarp();
  synchronize();
  BlockScan scan = {empty_span(), empty_span()};
  const int rake = part.place / RAKE;
  for (int k = 0; k < RAKES; ++k) {
    if (k == rake) scan.before = join(scan.total, desk.parts[threadIdx.x]);
    scan.total = join(scan.total, desk.rakes[k * CHANNELS + part.channel]);
  }
  return scan;
}
