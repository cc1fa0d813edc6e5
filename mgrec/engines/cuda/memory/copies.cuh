// Asynchronous copies by threads (compute capability 8.0 and later; plain copies before).
#pragma once

template <class Word> DEVICE inline void copy_word(Word* to, const Word* from) {
#if __CUDA_ARCH__ >= 800
  if constexpr (sizeof(Word) == 16) {  // bypasses L1, where it is not used again
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(
                     unsigned(__cvta_generic_to_shared(to))), "l"(from)
                 : "memory");
    return;
  }
  if constexpr (sizeof(Word) == 4 || sizeof(Word) == 8) {
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(
                     unsigned(__cvta_generic_to_shared(to))), "l"(from), "n"(sizeof(Word))
                 : "memory");
    return;
  }
#endif
  *to = *from;
}
// The same without a branch; zeros if there is nothing to copy.
template <class Word> DEVICE inline void copy_word_if(bool is_there, Word* to, const Word* from) {
#if __CUDA_ARCH__ >= 800
  const unsigned bytes = is_there ? sizeof(Word) : 0;
  if constexpr (sizeof(Word) == 16) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(
                     unsigned(__cvta_generic_to_shared(to))), "l"(from), "r"(bytes)
                 : "memory");
    return;
  }
  if constexpr (sizeof(Word) == 4 || sizeof(Word) == 8) {
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" ::"r"(
                     unsigned(__cvta_generic_to_shared(to))), "l"(from), "n"(sizeof(Word)), "r"(bytes)
                 : "memory");
    return;
  }
#endif
  if (is_there) *to = *from;
}
DEVICE inline void copies_commit() {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}
// Waits for this thread's copies, except those of the last PENDING commits.
template <int PENDING> DEVICE inline void copies_wait_but() {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.wait_group %0;" ::"n"(PENDING) : "memory");
#endif
}
DEVICE inline void copies_wait() { copies_wait_but<(STAGES > 0 ? STAGES - 1 : 0)>(); }
