// w = s * w + t by cub::DeviceScan, as a library of C functions: one source for CCCL 3.0 and 3.5.
//
// nvcc -O3 -std=c++17 -arch=sm_90 -shared -Xcompiler -fPIC [-I CCCL/include] -o libscan.so scan.cu

#include <cstddef>
#include <cub/device/device_scan.cuh>
#include <cub/version.cuh>
#include <cuda/std/functional>
#include <thrust/iterator/counting_iterator.h>
#include <thrust/iterator/transform_iterator.h>
#include <thrust/iterator/transform_output_iterator.h>

#include "tuning.cuh"

template <class T>
struct Affine {
  T s, t;
};

struct Compose {
  template <class T>
  __host__ __device__ Affine<T> operator()(const Affine<T>& earlier, const Affine<T>& later) const {
    return {earlier.s * later.s, later.s * earlier.t + later.t};
  }
};

// A pair of float32 in a type that CUB 3.0 counts as primitive: its tile states then fit one word.
using Word = unsigned long long;

__host__ __device__ inline Affine<float> unpack(Word word) {
  Affine<float> map;
  memcpy(&map, &word, sizeof(map));
  return map;
}

__host__ __device__ inline Word pack(const Affine<float>& map) {
  Word word;
  memcpy(&word, &map, sizeof(map));
  return word;
}

struct ComposeWords {
  __host__ __device__ Word operator()(Word earlier, Word later) const {
    return pack(Compose{}(unpack(earlier), unpack(later)));
  }
};

template <class T>
struct Gather {
  const T *s, *t;
  __host__ __device__ Affine<T> operator()(unsigned i) const { return {s[i], t[i]}; }
};

struct GatherWords {
  Gather<float> gather;
  __host__ __device__ Word operator()(unsigned i) const { return pack(gather(i)); }
};

struct State {
  template <class T>
  __host__ __device__ T operator()(const Affine<T>& map) const { return map.t; }
  __host__ __device__ float operator()(Word word) const { return unpack(word).t; }
};

struct Operands {
  const void *s, *t;  // `s` alone where pairs lie together
  void* w;
  unsigned count;
};

template <class Values>
auto from_arrays(Values values) {
  return thrust::make_transform_iterator(thrust::make_counting_iterator(0u), values);
}

template <class T>
auto state_of(void* w) {
  return thrust::make_transform_output_iterator(static_cast<T*>(w), State{});
}

// What a variant reads and writes: two arrays or pairs, states or pairs.
template <class T, class Tuning>
struct Arrays {
  static int run(void* space, size_t& bytes, Operands x, cudaStream_t stream) {
    const auto in = from_arrays(Gather<T>{static_cast<const T*>(x.s), static_cast<const T*>(x.t)});
    return scan<Tuning>(space, bytes, in, state_of<T>(x.w), Compose{}, x.count, stream);
  }
};

template <class T, class Tuning>
struct Words {
  static int run(void* space, size_t& bytes, Operands x, cudaStream_t stream) {
    const auto in = from_arrays(
        GatherWords{{static_cast<const float*>(x.s), static_cast<const float*>(x.t)}});
    return scan<Tuning>(space, bytes, in, state_of<float>(x.w), ComposeWords{}, x.count, stream);
  }
};

template <class T, class Tuning>
struct Pairs {
  static int run(void* space, size_t& bytes, Operands x, cudaStream_t stream) {
    const auto* in = static_cast<const Affine<T>*>(x.s);
    return scan<Tuning>(space, bytes, in, state_of<T>(x.w), Compose{}, x.count, stream);
  }
};

template <class T, class Tuning>
struct PairsToPairs {
  static int run(void* space, size_t& bytes, Operands x, cudaStream_t stream) {
    const auto* in = static_cast<const Affine<T>*>(x.s);
    auto* out = static_cast<Affine<T>*>(x.w);
    return scan<Tuning>(space, bytes, in, out, Compose{}, x.count, stream);
  }
};

using Run = int (*)(void*, size_t&, Operands, cudaStream_t);
struct Variant {
  const char* name;
  Run run4, run8;
};
#define VARIANT(layout, ...)                                                    \
  {#layout " " #__VA_ARGS__, layout<float, __VA_ARGS__>::run, layout<double, __VA_ARGS__>::run}

static const Variant variants[] = {
    VARIANT(Arrays, Default),
    VARIANT(Arrays, Sized<128, 128>),
    VARIANT(Arrays, Sized<256, 64>),
    VARIANT(Arrays, Sized<256, 128>),
    VARIANT(Arrays, Sized<384, 96>),
    {"Words Default", Words<float, Default>::run, nullptr},
    {"Words Sized<128, 128>", Words<float, Sized<128, 128>>::run, nullptr},
    {"Words Sized<256, 128>", Words<float, Sized<256, 128>>::run, nullptr},
    VARIANT(Pairs, Default),
    VARIANT(Pairs, Sized<128, 128>),
    VARIANT(Pairs, Sized<256, 128>),
    VARIANT(PairsToPairs, Default),
    VARIANT(PairsToPairs, Sized<256, 128>),
#if CUB_VERSION >= 300500
    VARIANT(PairsToPairs, Ahead<4, 256, 4>),
    VARIANT(PairsToPairs, Ahead<4, 128, 4>),
    VARIANT(PairsToPairs, Ahead<2, 512, 5>),
#endif
};

extern "C" {

int version() { return CUB_VERSION; }

// Name of a variant, or a null pointer past the last one.
const char* variant(int number) {
  return number < int(sizeof(variants) / sizeof(variants[0])) ? variants[number].name : nullptr;
}

int affine(int number, int size, void* space, size_t* bytes, const void* s, const void* t, void* w,
           unsigned count, cudaStream_t stream) {
  const Run run = size == 4 ? variants[number].run4 : variants[number].run8;
  return run ? run(space, *bytes, {s, t, w, count}, stream) : int(cudaErrorNotSupported);
}

int sum(int size, void* space, size_t* bytes, const void* t, void* w, unsigned count,
        cudaStream_t stream) {
  if (size == 4)
    return cub::DeviceScan::InclusiveSum(space, *bytes, static_cast<const float*>(t),
                                         static_cast<float*>(w), count, stream);
  return cub::DeviceScan::InclusiveSum(space, *bytes, static_cast<const double*>(t),
                                       static_cast<double*>(w), count, stream);
}
}
