// What blocks exchange through global memory, and barriers of some warps of a block.
//
// Tests without a GPU read the statements in assembler as C++, with the names of their operands here.
#pragma once

// Half data and half tag. A unit is written and read whole, so data need no fence and no flag.
typedef unsigned long long Unit;

DEVICE inline void store_pair(Unit* address, Unit first, Unit second) {
  asm volatile("st.relaxed.gpu.global.v2.u64 [%0], {%1, %2};" ::"l"(address), "l"(first),
               "l"(second)
               : "memory");
}
DEVICE inline void load_pair(const Unit* address, Unit& first, Unit& second) {
  asm volatile("ld.relaxed.gpu.global.v2.u64 {%0, %1}, [%2];"
               : "=l"(first), "=l"(second) : "l"(address) : "memory");
}
// Loads a pair, or zeros. With a branch around each load, each would wait for the one before.
DEVICE inline void load_pair_if(bool is_needed, const Unit* address, Unit& first, Unit& second) {
  first = second = 0;
  asm volatile(
      "{.reg .pred asked;\nsetp.ne.b32 asked, %3, 0;\n"
      "@asked ld.relaxed.gpu.global.v2.u64 {%0, %1}, [%2];\n}"
      : "+l"(first), "+l"(second) : "l"(address), "r"(int(is_needed)) : "memory");
}

DEVICE inline void arrive(int barrier, int threads) {
  asm volatile("bar.arrive %0, %1;" ::"r"(barrier), "r"(threads) : "memory");
}
DEVICE inline void meet(int barrier, int threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(barrier), "r"(threads) : "memory");
}
