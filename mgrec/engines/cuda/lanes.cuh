// Items of other lanes of a warp: numbers, states, spans, whatever consists of 32-bit words.
#pragma once

constexpr unsigned ALL = 0xffffffffu;

template <class Item> union Packed {
  Item item;
  unsigned word[(sizeof(Item) + 3) / 4];
  DEVICE Packed() { word[(sizeof(Item) + 3) / 4 - 1] = 0; }
  DEVICE explicit Packed(const Item& value) : Packed() { item = value; }
};

template <class Item, class Shuffle> DEVICE inline Item shuffled(const Item& item, Shuffle shuffle) {
  const Packed<Item> mine(item);
  Packed<Item> theirs;
#pragma unroll
  for (int k = 0; k < int((sizeof(Item) + 3) / 4); ++k) theirs.word[k] = shuffle(mine.word[k]);
  return theirs.item;
}
template <class Item> DEVICE inline Item from_below(const Item& item, int distance) {
  return shuffled(item, [=](unsigned word) { return __shfl_up_sync(ALL, word, distance); });
}
template <class Item> DEVICE inline Item from_above(const Item& item, int distance) {
  return shuffled(item, [=](unsigned word) { return __shfl_down_sync(ALL, word, distance); });
}
template <class Item> DEVICE inline Item from_lane(const Item& item, int lane) {
  return shuffled(item, [=](unsigned word) { return __shfl_sync(ALL, word, lane); });
}
