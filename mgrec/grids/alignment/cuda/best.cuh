// The best cell of a grid: the largest score; of equal ones the smallest column, then the smallest row.
#pragma once
#include "grids/alignment/cuda/letters.cuh"

template <class N> struct wide_of { typedef long long type; };
template <> struct wide_of<double> { typedef double type; };

// What the host reads.
struct Found {
  typename wide_of<T>::type score;
  long long row, column;
};

struct Best {
  T score;
  int row, column;

  DEVICE void take(const Best& other) {
    const bool is_first = other.column < column || (other.column == column && other.row < row);
    if (other.score > score || (other.score == score && is_first)) *this = other;
  }
  // The best of all lanes.
  DEVICE void reduce() {
    for (int distance = 16; distance > 0; distance /= 2) {
      const int from = lane() ^ distance;
      take({from_lane<false>(score, from), __shfl_sync(ALL, row, from),
            __shfl_sync(ALL, column, from)});
    }
  }
  DEVICE Found found() const { return {score, row, column}; }
};
