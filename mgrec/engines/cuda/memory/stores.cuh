// Stores of several numbers at once.
#pragma once

// Stores at most 16 bytes, which need not stay in the cache. For an assignment the compiler stores
// each number separately, a quarter of a sector each.
template <class Pack, class N> DEVICE inline void store_pack(N* to, const Pack& pack) {
#ifdef __CUDA_ARCH__
  unsigned word[(sizeof(Pack) + 3) / 4];
  memcpy(word, &pack, sizeof(pack));
  if constexpr (sizeof(pack) == 16)
    asm volatile("st.global.cs.v4.b32 [%0], {%1, %2, %3, %4};" ::"l"(to), "r"(word[0]), "r"(word[1]),
                 "r"(word[2]), "r"(word[3]) : "memory");
  else if constexpr (sizeof(pack) == 8)
    asm volatile("st.global.cs.v2.b32 [%0], {%1, %2};" ::"l"(to), "r"(word[0]), "r"(word[1])
                 : "memory");
  else
#endif
    *(Pack*)to = pack;
}
