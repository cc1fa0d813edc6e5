// The messages of ranks that solve w = s·w + t together, each with a run of steps.
//
// A message has a header and the summary of every row. Every rank reads the messages of all ranks,
// and so finds the carry-ins of its rows, and whether the messages suffice: all ranks find the same.
#pragma once
#include "engines/cuda/message.cuh"
#include "scans/cuda/spans.cuh"

// The state after a run of steps: mantissa·2^exponent times the state before it, plus the offset.
struct Summary {
  double mantissa, exponent, offset;
  double growth;   // log2 of the largest product of the first coefficients
  double initial;  // state before the first step of this rank, for the rank that is the first one
  double suffices;
  // Of linked ranks: the coefficient of the state after this rank in the next one, and the number
  // that the rank before it needs.
  double link, edge;
};

constexpr int LANES = 32;
constexpr double VANISHED = -5000, MOST_BITS = 4400, FEWEST_BITS = -4400;
constexpr bool IS_NARROW = sizeof(T) == 4;
constexpr double TOP = IS_NARROW ? 0x1.fffffep127 : 0x1.fffffffffffffp1023;  // the largest number
constexpr double SAFE_BITS = IS_NARROW ? 126 : 1022;   // log2 of a quarter of it
constexpr double FORGOTTEN = IS_NARROW ? -279 : -2100;  // as that of a row

constexpr bool IS_ROUNDED = sizeof(Stored) < sizeof(T);  // results are not the states

// What a block finds in a run of steps of a column: log2 of the product of the coefficients, inf if
// one of them is above 1 in size, and the largest result, nan if one is nan. If results are rounded
// also the map of a run of the last steps: log2 of its product, the product and the offset.
struct Evidence {
  double bits, largest, last_bits, product, offset;
};

DEVICE inline double bits_of_coefficient(double s) {
  return fabs(s) <= 1 ? log2(fabs(s)) : infinity<double>();
}

// Writes the evidence of columns in the first steps, and of states in as many of the last ones. A
// block has LANES columns and one of `strides`.
DEVICE void check_columns(const Stored* s, const Stored* t, const Stored* results, long long steps,
                          long long inners, long long prefix, int strides, Evidence* evidence) {
  __shared__ Evidence found[THREADS];
  constexpr int RUNS = THREADS / LANES;
  const long long column = blockIdx.x / strides * (long long)LANES + threadIdx.x % LANES;
  const int stride = blockIdx.x % strides, run = stride * RUNS + threadIdx.x / LANES;
  const auto index_of = [&](long long time) {
    return (REVERSE ? steps - 1 - time : time) * inners + column;
  };
  Evidence mine = {0, 0, 0, 1, 0};
  if (column < inners)
#pragma unroll 8
    for (long long time = run; time < prefix; time += strides * RUNS) {
      const double result = fabs(double(cast<T>(results[index_of(time)])));
      mine.bits += bits_of_coefficient(double(cast<T>(s[index_of(time)])));
      if (result > mine.largest || result != result) mine.largest = result;
    }
  if (IS_ROUNDED && column < inners) {
    const long long length = (prefix + strides * RUNS - 1) / (strides * RUNS);
    const long long first = steps - prefix + run * length;
    T product = T(1), offset = T(0);
#pragma unroll 8
    for (long long time = first; time < first + length && time < steps; ++time) {
      const T factor = cast<T>(s[index_of(time)]);
      mine.last_bits += bits_of_coefficient(double(factor));
      product *= factor;
      offset = factor * offset + cast<T>(t[index_of(time)]);
    }
    mine.product = double(product), mine.offset = double(offset);
  }
  found[threadIdx.x] = mine;
  __syncthreads();
  if (threadIdx.x >= LANES || column >= inners) return;
  for (int k = threadIdx.x + LANES; k < THREADS; k += LANES) {
    const Evidence other = found[k];
    mine.bits += other.bits, mine.last_bits += other.last_bits;
    if (other.largest > mine.largest || other.largest != other.largest)
      mine.largest = other.largest;
    mine.offset = double(T(other.product) * T(mine.offset) + T(other.offset));
    mine.product = double(T(other.product) * T(mine.product));
  }
  evidence[stride * inners + column] = mine;
}

// Writes the message of columns that are solved from states of 0, if none of them depends on the
// state before its first steps: no coefficient is above 1, and the product of all has no effect. If
// results are rounded, the same holds for the last steps, which then give the last state.
DEVICE void write_columns(const Evidence* evidence, int strides, const Stored* results,
                          long long steps, long long inners, double top, const Entry& entry,
                          long long digest, Message<Summary> message) {
  for (long long row = threadIdx.x; row < inners; row += blockDim.x) {
    double bits = 0, last_bits = 0;
    const T result = cast<T>(results[(REVERSE ? 0 : steps - 1) * inners + row]);
    T last = IS_ROUNDED ? T(0) : result;
    bool is_small = fabs(result) <= top;  // a state that is not finite stays so to the end
#pragma unroll 8
    for (int stride = 0; stride < strides; ++stride) {
      const Evidence found = evidence[stride * inners + row];
      bits += found.bits, last_bits += found.last_bits;
      is_small = is_small && found.largest <= top;
      if (IS_ROUNDED) last = T(found.product) * last + T(found.offset);
    }
    const bool is_independent = bits < FORGOTTEN && (!IS_ROUNDED || last_bits < FORGOTTEN);
    const bool suffices = is_small && is_independent && fabs(last) <= top;
    const double initial = double(entry.at(row).v[0]);
    message.rows[row] = {0, VANISHED, double(last), 0, initial, double(suffices)};
  }
  message.write_header(digest, 1);
}

// Writes the message of rows that are solved from states of 0. A prefix above 0 is that of a constant
// coefficient, whose powers have this sign.
DEVICE void write_rows(const Told* told, long long rows, long long prefix, double sign, double top,
                       const Entry& entry, long long digest, Message<Summary> message) {
  const bool is_constant = prefix > 0;
  const double* const largest = reinterpret_cast<const double*>(told + 1);
  const double* const last = largest + rows;
  if (!is_constant) sign = told->has_zero ? 0 : told->is_turned ? -1 : 1;
  const double growth = is_constant ? 0 : told->growth;
  const bool forgets = is_constant || told->steps > 0;
  for (long long row = threadIdx.x; row < rows; row += blockDim.x) {
    const bool suffices = forgets && largest[row] <= top && fabs(last[row]) <= top;
    message.rows[row] = {0.5 * sign, VANISHED, last[row], growth, double(entry.at(row).v[0]),
                         double(suffices)};
  }
  message.write_header(digest, 1);
}

// Writes the message of composed maps, whose components are those of the guarded map.
DEVICE void write_maps(const T* maps, long long rows, const Entry& entry, long long digest,
                       Message<Summary> message) {
  for (long long row = threadIdx.x; row < rows; row += blockDim.x) {
    const double exponent = double(maps[rows + row]), flag = double(maps[7 * rows + row]);
    const double known = exponent == exponent ? exponent : 0;
    const double growth = log2(double(maps[3 * rows + row])) + double(maps[4 * rows + row]);
    const double offset = flag == 2 ? not_a_number<double>() : double(maps[2 * rows + row]);
    message.rows[row] = {double(maps[row]), fmin(fmax(known, -0x1p40), 0x1p40), offset, growth,
                         double(entry.at(row).v[0]), double(flag != 1)};
  }
  message.write_header(digest, 0);
}

// Writes the links of a rank and its edges, if it has any, by the threads that wrote its rows.
DEVICE void write_links(const Stored* links, const Stored* edges, long long rows,
                        Message<Summary> message) {
  if (links == nullptr) return;
  for (long long row = threadIdx.x; row < rows; row += blockDim.x) {
    message.rows[row].link = double(cast<T>(links[row]));
    message.rows[row].edge = double(cast<T>(edges[row]));
  }
}

DEVICE inline double scaled(double value, int& exponent) {
  exponent = 0;
  return value - value == 0 ? frexp(value, &exponent) : value;
}

// As `propagate_affine` of the host, with its bits.
DEVICE inline double state_after(const Summary& part, double state) {
  int shift, more;
  const double unit = scaled(part.mantissa, shift), product = unit * scaled(state, more);
  const double bits = fmin(fmax(part.exponent + shift + more, FEWEST_BITS), MOST_BITS);
  const double after = double(T(ldexp(product, int(bits)) + part.offset));
  const double whole = fmin(floor(part.growth), MOST_BITS);
  const double most = ldexp(TOP * exp2(whole - part.growth), -int(whole));
  const bool overflows = state - state == 0 && fabs(state) > most && after == after;
  return overflows ? (unit == 0 ? not_a_number<double>() : product * infinity<double>()) : after;
}

// Writes the carry-ins of a rank, and in `status` 1 if the messages suffice, else 2.
//
// The state after a rank is that before the next one. If ranks are linked, it is multiplied by the
// link, and added to the initial state of the next one. Then `states` receives the carry-ins, too,
// and `following` the edges of the next rank, or 0.
DEVICE void propagate(const Messages<Summary> messages, int rank, int size, long long digest,
                      long long rows, T* carry_ins, Stored* states, Stored* following,
                      long long* status) {
  const bool are_linked = states != nullptr;
  const int next = REVERSE ? rank - 1 : rank + 1;
  bool fails = !messages.agree(size, digest);
  for (long long row = threadIdx.x; row < rows && !fails; row += blockDim.x) {
    double state = messages.of(REVERSE ? size - 1 : 0).rows[row].initial;
    for (int k = 0; k < size; ++k) {
      const int other = REVERSE ? size - 1 - k : k;
      const auto message = messages.of(other);
      const Summary part = message.rows[row];
      if (are_linked && k > 0) {
        const double link = messages.of(REVERSE ? other + 1 : other - 1).rows[row].link;
        state = double(T(link * state + part.initial));
      }
      if (other == rank) carry_ins[row] = T(state);
      if (other == rank && are_linked) states[row] = cast<Stored>(T(state));
      fails = fails || part.suffices == 0;
      // A state that overflows in the prefix would have an effect after it.
      if (message.is_speculative() && !(log2(fabs(state)) + part.growth < SAFE_BITS)) fails = true;
      state = state_after(part, state);
    }
    if (are_linked) {
      const double edge = next < 0 || next >= size ? 0 : messages.of(next).rows[row].edge;
      following[row] = cast<Stored>(T(edge));
    }
  }
  report(fails, status);
}
