// Averages over windows of `size` steps along the lines of an array (outer, steps, inner).
//
// A thread has a batch of BATCH results. A window is the end of its first batch, all batches
// between, and the start of the last one or two (van Herk 1992, with batches in place of blocks of
// `size`): the end is summed backward from the end of the batch, and the start forward, so that
// nothing is subtracted. A block has its samples in shared memory, and the sum of each batch.
#pragma once
#include "engines/cuda/memory/copies.cuh"
#include "ndimage/results.cuh"

constexpr int NEAREST = 0, REFLECT = 1, MIRROR = 2, WRAP = 3, CONSTANT = 4;

// Asynchronous copies have 4 bytes or more. Others are loaded and converted.
constexpr bool CAN_COPY = IS_SAME && (sizeof(T) == 4 || sizeof(T) == 8);

struct Arrays {
  const X* x;
  E* y;
};
// `steps` are those of x. Window i begins `before` steps before step i of x.
struct Shape { long long lines, steps, results, inner, before; };
struct Window {
  double constant[2];  // outside of even and odd lines: real and imaginary part
  double inverse;      // of size
  long long size;
};

// The step of the extension that is in the line; −1 for the constant.
DEVICE inline long long extended(long long step, long long steps) {
  if (MODE == NEAREST) return step < 0 ? 0 : steps - 1;
  if (MODE == CONSTANT) return -1;
  const long long period = MODE == WRAP ? steps : MODE == REFLECT ? 2 * steps : 2 * steps - 2;
  if (period == 0) return 0;
  step %= period;
  if (step < 0) step += period;
  return step < steps ? step : MODE == REFLECT ? period - 1 - step : period - step;
}

struct Line {
  const X* x;
  long long steps, stride;
  double constant;

  DEVICE T at(long long step) const {
    if (step < 0 || step >= steps) {
      step = extended(step, steps);
      if (step < 0) return T(constant);
    }
    return T(x[step * stride]);
  }
};

// Where a block has the samples of a line and the sums of its batches: contiguous lines are padded
// by one sample a batch.
struct Tile {
  T* samples;
  double* sums;
  int lane;

  DEVICE T* at(int position) const {
    return samples + (ROWS ? position + position / BATCH : position * 32 + lane);
  }
  DEVICE double* sum(int batch) const { return sums + (ROWS ? batch : batch * 32 + lane); }

  DEVICE void copy(int position, const X* from) const {
    copy_word(at(position), reinterpret_cast<const T*>(from));
  }
  // Sum a batch; sums of its ends are results, from the last sample back.
  DEVICE void sum_batch(int batch, double (&ends)[BATCH]) const {
    double total = 0.0;
#pragma unroll
    for (int i = BATCH - 1; i >= 0; --i) ends[i] = total += double(*at(batch * BATCH + i));
    *sum(batch) = total;
  }
  // The sums of the windows that begin in a batch, from those of its ends.
  DEVICE void sum_windows(int batch, int size, double (&results)[BATCH]) const {
    const int batches = size / BATCH, remainder = size % BATCH, last = (batch + batches) * BATCH;
    double between = 0.0, total = 0.0;
    for (int r = batch + 1; r < batch + batches; ++r) between += *sum(r);
    for (int i = 0; i < remainder; ++i) total += double(*at(last + i));
#pragma unroll
    for (int i = 0; i < BATCH; ++i) {
      results[i] += between + total;
      if (i < BATCH - 1) total += double(*at(last + remainder + i));
    }
  }
};

// The product is rounded to float. Of integers, a quotient that is whole must not become smaller.
DEVICE inline E average(double sum, const Window& window) {
  if (is_real<E>::value && sizeof(E) == 4) return E(sum * window.inverse);
  return truncated(sum / double(window.size));
}

// A block has THREADS batches of a contiguous line, or THREADS / 32 batches of 32 lines.
DEVICE void average(const Arrays& arrays, const Shape& shape, const Window& window) {
  extern __shared__ __align__(16) unsigned char shared_bytes[];
  constexpr int batches = ROWS ? THREADS : THREADS / 32;
  const int lane = threadIdx.x % 32, batch = ROWS ? threadIdx.x : threadIdx.x / 32;
  const int size = int(window.size), length = batches * BATCH + size - 1;
  const int all_batches = (length + BATCH - 1) / BATCH, padded = all_batches * BATCH;
  const Tile tile = {
      reinterpret_cast<T*>(shared_bytes + sizeof(double) * all_batches * (ROWS ? 1 : 32)),
      reinterpret_cast<double*>(shared_bytes), lane};

  const long long pieces = (shape.results + batches * BATCH - 1) / (batches * BATCH);
  const long long groups = ROWS ? pieces : (shape.lines + 31) / 32;
  const long long major = blockIdx.x / groups, minor = blockIdx.x - major * groups;
  const long long line = ROWS ? major : minor * 32 + lane;
  const long long start = (ROWS ? minor : major) * batches * BATCH;
  const bool exists = line < shape.lines;
  const long long outer = line / shape.inner, inner = line - outer * shape.inner;
  const Line from = {arrays.x + outer * shape.steps * shape.inner + inner, shape.steps,
                     ROWS ? 1 : shape.inner,
                     line % 2 ? window.constant[1] : window.constant[0]};
  const long long first = start - shape.before;
  // Steps behind the last window are not read: they may be outside of x.
  const long long end = shape.results + size - 1 - start;
  const int used = exists ? (end < padded ? int(end) : padded) : 0;
  const bool is_inside = first >= 0 && first + used <= shape.steps;
  if (CAN_COPY && is_inside) {
    const X* source = from.x + (first + batch) * from.stride;
#pragma unroll 8
    for (int p = batch; p < used; p += batches, source += batches * from.stride)
      tile.copy(p, source);
    copies_commit();
    for (int p = used + batch; p < padded; p += batches) *tile.at(p) = T(0);
    copies_wait();
  } else {
#pragma unroll 8
    for (int p = batch; p < padded; p += batches)
      *tile.at(p) = p < used ? from.at(first + p) : T(0);
  }
  __syncthreads();
  double sums[BATCH];
  for (int r = batches + batch; r < all_batches; r += batches) tile.sum_batch(r, sums);
  tile.sum_batch(batch, sums);
  __syncthreads();
  tile.sum_windows(batch, size, sums);
  const long long left = shape.results - start;
  E* to = arrays.y + (outer * shape.results + start) * shape.inner + inner;
  if (!ROWS) {
    to += batch * BATCH * shape.inner;
#pragma unroll
    for (int i = 0; i < BATCH; ++i, to += shape.inner)
      if (exists && batch * BATCH + i < left) *to = average(sums[i], window);
    return;
  }
  __syncthreads();
  E* const results = reinterpret_cast<E*>(shared_bytes);
#pragma unroll
  for (int i = 0; i < BATCH; ++i) results[batch * (BATCH + 1) + i] = average(sums[i], window);
  __syncthreads();
#pragma unroll
  for (int i = 0; i < BATCH; ++i) {
    const int p = i * THREADS + batch;
    if (p < left) to[p] = results[p + p / BATCH];
  }
}
