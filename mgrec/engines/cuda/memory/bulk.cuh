// Bulk asynchronous copies between global and shared memory (compute capability 9.0 and later).
#pragma once

DEVICE inline unsigned shared_address(const void* pointer) {
  return unsigned(__cvta_generic_to_shared(pointer));
}
DEVICE inline void barrier_create(unsigned long long* barrier) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(shared_address(barrier)) : "memory");
}
DEVICE inline void barrier_expect(unsigned long long* barrier, unsigned bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(
                   shared_address(barrier)), "r"(bytes) : "memory");
}
DEVICE inline void barrier_wait(unsigned long long* barrier, unsigned parity) {
  asm volatile(
      "{\n.reg .pred done;\n"
      "again: mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
      "@!done bra again;\n}" ::"r"(shared_address(barrier)), "r"(parity) : "memory");
}
DEVICE inline void bulk_load(void* to, const void* from, unsigned bytes, unsigned long long* barrier) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
          shared_address(to)), "l"(from), "r"(bytes), "r"(shared_address(barrier)) : "memory");
}
DEVICE inline void bulk_store(void* to, const void* from, unsigned bytes) {
  asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(to),
               "r"(shared_address(from)), "r"(bytes) : "memory");
}
DEVICE inline void bulk_commit() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }
// Waits until the shared memory of all stores so far may be written again.
DEVICE inline void bulk_wait_read() {
  asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
}
// Orders writes by ordinary stores before the copy engine's reads.
DEVICE inline void fence_proxy() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }
// Returns true to one thread of a warp, always the same. The compiler then knows that one thread
// alone runs, and needs no loop over threads for the addresses of bulk copies.
DEVICE inline bool is_elected() {
  unsigned elected;
  asm volatile("{\n.reg .pred chosen;\nelect.sync _|chosen, 0xffffffff;\n"
               "selp.u32 %0, 1, 0, chosen;\n}" : "=r"(elected));
  return elected;
}
