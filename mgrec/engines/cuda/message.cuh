// Messages of ranks in one array: that of each rank begins with a header.
#pragma once

constexpr long long GUESS = -1;  // No other message begins with a negative number.

struct Header {
  long long kind, digest, is_speculative, unused[5];
};

template <class Row> struct Message {
  Header* header;
  Row* rows;
  DEVICE explicit Message(char* start)
      : header(reinterpret_cast<Header*>(start)),
        rows(reinterpret_cast<Row*>(start + sizeof(Header))) {}
  DEVICE bool is_speculative() const { return header->is_speculative != 0; }
  // Called by all threads of one block.
  DEVICE void write_header(long long digest, long long is_speculative) const {
    if (threadIdx.x == 0) *header = {GUESS, digest, is_speculative, {}};
  }
};

template <class Row> struct Messages {
  char* start;
  long long stride;
  DEVICE Message<Row> of(int rank) const { return Message<Row>(start + rank * stride); }
  // Returns whether all ranks have sent a guess, and for the same problem.
  DEVICE bool agree(int size, long long digest) const {
    bool agrees = true;
    for (int rank = 0; rank < size; ++rank) {
      const Header& header = *of(rank).header;
      agrees = agrees && header.kind == GUESS && header.digest == digest;
    }
    return agrees;
  }
};

// Writes 2 to the status if a thread of the block fails, else 1. The host reads the status.
DEVICE inline void report(bool fails, long long* status) {
  __shared__ int failures;
  if (threadIdx.x == 0) failures = 0;
  __syncthreads();
  if (fails) failures = 1;
  __syncthreads();
  if (threadIdx.x == 0) *status = failures ? 2 : 1;
}
