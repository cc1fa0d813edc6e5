// Stores of several numbers at once.
#pragma once

// Stores at most 16 bytes, which need not stay in the cache. For an assignment the compiler stores
// each number separately, a quarter of a sector each.
template <class Vector, class N> DEVICE inline void store_vector(N* to, const Vector& vector) {
#ifdef __CUDA_ARCH__
  unsigned word[(sizeof(Vector) + 3) / 4];
  memcpy(word, &vector, sizeof(vector));
  if constexpr (sizeof(vector) == 16)
    asm volatile("st.global.cs.v4.b32 [%0], {%1, %2, %3, %4};" ::"l"(to), "r"(word[0]), "r"(word[1]),
                 "r"(word[2]), "r"(word[3]) : "memory");
  else if constexpr (sizeof(vector) == 8)
    asm volatile("st.global.cs.v2.b32 [%0], {%1, %2};" ::"l"(to), "r"(word[0]), "r"(word[1])
                 : "memory");
  else
#endif
    *(Vector*)to = vector;
}
