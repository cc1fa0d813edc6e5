// A partition eliminated from both its ends to the middle: two chains of steps that do not wait for
// each other, in one thread.
//
// The lower half is a line read backwards, whose `before` is the unknown after the partition.
#pragma once
#include "tridiagonal/cuda/partition.cuh"
#include "tridiagonal/cuda/interface.cuh"

constexpr int GROUPS = ROWS / PACK, MIDDLE = ROWS / 2;

// dl, d, du and b of a group of rows.
struct Group {
  Pack v[4];
  DEVICE void load(Tile& tile, int group) {
#pragma unroll
    for (int k = 0; k < 4; ++k) v[k] = tile.load(k, group);
  }
  DEVICE void store(Tile& tile, int group) const {
#pragma unroll
    for (int k = 0; k < 4; ++k) tile.store(k, group, v[k]);
  }
  template <bool IS_LOWER> DEVICE Row<T, 4> row(int r, T& odd) const {
    return scaled_row(v[IS_LOWER ? 2 : 0].v[r], v[1].v[r], v[IS_LOWER ? 0 : 2].v[r], v[3].v[r], odd);
  }
};

struct Halves {
  Held<T> upper = Held<T>::copies(), lower = Held<T>::copies();

  // Eliminate all rows. `keep` is given the group and the number of every row, the pivot and its
  // inverse; and whether the row is of the lower half. Groups are stored if it is to keep them.
  template <bool KEEPS, class Keep>
  DEVICE void eliminate(Tile& tile, int length, T& odd, Keep keep) {
    if (length == ROWS)
      eliminate_rows<KEEPS, true>(tile, length, odd, keep);
    else
      eliminate_rows<KEEPS, false>(tile, length, odd, keep);
  }

 private:
  template <bool KEEPS, bool IS_FULL, class Keep>
  DEVICE void eliminate_rows(Tile& tile, int length, T& odd, Keep keep) {
    for (int group = 0; group < GROUPS / 2; ++group) {
      Group one, other;
      one.load(tile, group);
      other.load(tile, GROUPS - 1 - group);
#pragma unroll
      for (int r = 0; r < PACK; ++r) {
        const int back = PACK - 1 - r, row = group * PACK + r;
        Inverse<T> inverse(T(1)), inverse_back(T(1));
        if (IS_FULL || row < length)
          keep(false, one, r, advance(upper, one.row<false>(r, odd), inverse), inverse);
        if (IS_FULL || ROWS - 1 - row < length)
          keep(true, other, back, advance(lower, other.row<true>(back, odd), inverse_back),
               inverse_back);
        if (upper.is_large() || lower.is_large()) {
          upper.part();
          lower.part();
        }
      }
      if (KEEPS) {
        one.store(tile, group);
        other.store(tile, GROUPS - 1 - group);
      }
    }
  }
};
