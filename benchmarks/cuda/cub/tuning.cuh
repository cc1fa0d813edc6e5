// How a scan is tuned: as CUB chooses, or with sizes given here.
#pragma once

#include <cstddef>
#include <cub/device/device_scan.cuh>

struct Default {};
// Look-back with tiles of THREADS threads, each with BYTES of maps.
template <int THREADS, int BYTES>
struct Sized {};
// Look-ahead, which CUB 3.5 itself chooses on this chip for sums alone.
template <int WARPS, int BYTES, int SUMMARIES>
struct Ahead {};

#if CUB_VERSION >= 300500

template <class Tuning, int SIZE>
struct Selector;

template <int THREADS, int BYTES, int SIZE>
struct Selector<Sized<THREADS, BYTES>, SIZE> {
  __host__ __device__ constexpr cub::ScanPolicy operator()(cuda::compute_capability) const {
    return {cub::ScanAlgorithm::lookback,
            {THREADS, BYTES / SIZE, cub::BLOCK_LOAD_WARP_TRANSPOSE, cub::LOAD_DEFAULT,
             cub::BLOCK_STORE_WARP_TRANSPOSE, cub::BLOCK_SCAN_WARP_SCANS,
             {cub::LookbackDelayAlgorithm::fixed_delay, 350, 450}},
            {}};
  }
};

template <int WARPS, int BYTES, int SUMMARIES, int SIZE>
struct Selector<Ahead<WARPS, BYTES, SUMMARIES>, SIZE> {
  __host__ __device__ constexpr cub::ScanPolicy operator()(cuda::compute_capability) const {
    return {cub::ScanAlgorithm::lookahead, {}, {WARPS, BYTES / SIZE - 1, SUMMARIES}};
  }
};

template <class Tuning, class In, class Out, class Op>
int scan_tuned(void* space, size_t& bytes, In in, Out out, Op op, unsigned count,
               cudaStream_t stream) {
  using Map = cub::detail::it_value_t<In>;
  return cub::detail::scan::dispatch(space, bytes, in, out, op, cub::NullType{}, count, stream,
                                     Selector<Tuning, sizeof(Map)>{});
}

#else

template <class Tuning, class Map>
struct Hub;

template <int THREADS, int BYTES, class Map>
struct Hub<Sized<THREADS, BYTES>, Map> {
  static constexpr int ITEMS = BYTES / sizeof(Map);
  struct Scaling {
    static constexpr int BLOCK_THREADS = THREADS, ITEMS_PER_THREAD = ITEMS;
  };
  struct MaxPolicy : cub::ChainedPolicy<500, MaxPolicy, MaxPolicy> {
    using ScanPolicyT =
        cub::AgentScanPolicy<THREADS, ITEMS, Map, cub::BLOCK_LOAD_WARP_TRANSPOSE, cub::LOAD_DEFAULT,
                             cub::BLOCK_STORE_WARP_TRANSPOSE, cub::BLOCK_SCAN_WARP_SCANS, Scaling,
                             cub::detail::fixed_delay_constructor_t<350, 450>>;
  };
};

template <class Tuning, class In, class Out, class Op>
int scan_tuned(void* space, size_t& bytes, In in, Out out, Op op, unsigned count,
               cudaStream_t stream) {
  using Map = cub::detail::it_value_t<In>;
  return cub::DispatchScan<In, Out, Op, cub::NullType, unsigned, Map, cub::ForceInclusive::No,
                           Hub<Tuning, Map>>::Dispatch(space, bytes, in, out, op, {}, count, stream);
}

#endif

template <class Tuning, class In, class Out, class Op>
int scan(void* space, size_t& bytes, In in, Out out, Op op, unsigned count, cudaStream_t stream) {
  if constexpr (std::is_same_v<Tuning, Default>)
    return cub::DeviceScan::InclusiveScan(space, bytes, in, out, op, count, stream);
  else
    return scan_tuned<Tuning>(space, bytes, in, out, op, count, stream);
}
