// Transposes grids: the entries of a column are contiguous before, those of a row afterwards. Tiles
// in shared memory are read and written along 32 contiguous entries. One block of 256 threads a tile.
#pragma once

constexpr int SIDE = 32, LINES = 8;  // of a tile; rows of it that 256 threads copy at once

struct Grids {
  const Word* from;
  Word* to;
  long long rows, columns;
};

DEVICE void transpose(const Grids& all) {
  __shared__ Word tile[SIDE][SIDE + 1];
  const long long across = (all.columns + SIDE - 1) / SIDE, down = (all.rows + SIDE - 1) / SIDE;
  const long long band = blockIdx.x / across, grid = band / down;
  const long long row = (band - grid * down) * SIDE, column = (blockIdx.x - band * across) * SIDE;
  const long long first = grid * all.rows * all.columns;
  const int x = threadIdx.x % SIDE, y = threadIdx.x / SIDE;
#pragma unroll
  for (int k = y; k < SIDE; k += LINES)
    if (row + x < all.rows && column + k < all.columns)
      tile[x][k] = all.from[first + (column + k) * all.rows + row + x];
  __syncthreads();
#pragma unroll
  for (int k = y; k < SIDE; k += LINES)
    if (row + k < all.rows && column + x < all.columns)
      all.to[first + (row + k) * all.columns + column + x] = tile[k][x];
}
