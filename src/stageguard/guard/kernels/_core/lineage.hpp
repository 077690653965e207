// The paths that are still in the running, as a tree of bouts: what they share is stored once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace stageguard {

constexpr std::int32_t kNobody = -1;

struct Bout {
    std::int64_t start;   // epoch
    std::int32_t stage;   // -1 for the root before the first epoch
    std::int32_t parent;  // the bout before it, kNobody for the root
    std::int32_t branch;  // the ancestor, or itself, that follows the root directly; kNobody for the root
    std::int32_t n_uses;  // by bouts that follow it, by survivors, and by the root's place
    std::int64_t round = 0;  // when it was last met on a walk, and where
    std::size_t place = 0;
};

// Bouts are counted by their users and freed with the last one. The root is the bout that every survivor has gone through;
// all before it is decided.
class Lineage {
  public:
    std::int32_t root() const { return root_; }
    const Bout& operator[](std::int32_t i) const { return bouts_[static_cast<std::size_t>(i)]; }

    void begin(std::int64_t epoch) {
        bouts_.clear();
        free_.clear();
        root_ = make({epoch, -1, kNobody, kNobody, 1, 0, 0});
    }

    // A bout that follows another; used by nobody as yet.
    std::int32_t follow(std::int32_t parent, std::int32_t stage, std::int64_t epoch) {
        const std::int32_t own = make({epoch, stage, parent, at(parent).branch, 0, 0, 0});
        if (parent == root_) at(own).branch = own;
        use(parent);
        return own;
    }

    void use(std::int32_t i) { ++at(i).n_uses; }

    void release(std::int32_t i) {
        while (i != kNobody && --at(i).n_uses == 0) {
            const std::int32_t parent = at(i).parent;
            free_.push_back(i);
            i = parent;
        }
    }

    // The youngest bout that all survivors have gone through, `chain` being those from it up to the root, without the root.
    std::int32_t common(const std::vector<std::int32_t>& survivors, std::vector<std::int32_t>& chain) {
        chain.clear();
        ++round_;
        std::size_t shared = 0;  // how much of the first survivor's line is not common
        for (std::int32_t leaf : survivors) {
            if (leaf == kNobody) continue;
            if (chain.empty()) {
                for (std::int32_t i = leaf; i != root_; i = at(i).parent) meet(i, chain.size()), chain.push_back(i);
                meet(root_, chain.size());
                continue;
            }
            std::int32_t i = leaf;
            while (at(i).round != round_) i = at(i).parent;
            const std::size_t place = at(i).place;
            for (std::int32_t j = leaf; j != i; j = at(j).parent) meet(j, place);
            if (place > shared) shared = place;
        }
        chain.erase(chain.begin(), chain.begin() + static_cast<std::ptrdiff_t>(shared));
        return chain.empty() ? root_ : chain.front();
    }

    // Makes a bout that all survivors have gone through the root.
    void move_root(std::int32_t bout, const std::vector<std::int32_t>& survivors) {
        const std::int32_t before = root_, parent = at(bout).parent;
        root_ = bout;
        use(bout);
        at(bout).parent = at(bout).branch = kNobody;
        release(parent);
        release(before);
        ++round_;
        for (std::int32_t leaf : survivors)
            if (leaf != kNobody) find_branch(leaf);
    }

    std::size_t capacity() const { return bouts_.size(); }

    // Puts a tree back: bouts come after their parents, the root is the first.
    void restore(const std::vector<Bout>& bouts) {
        bouts_ = bouts;
        free_.clear();
        root_ = 0;
        for (Bout& bout : bouts_) bout.n_uses = 0, bout.branch = kNobody, bout.round = 0;
        at(0).n_uses = 1;
        for (std::size_t i = 1; i < bouts_.size(); ++i) {
            Bout& own = bouts_[i];
            own.branch = own.parent == 0 ? static_cast<std::int32_t>(i) : at(own.parent).branch;
            use(own.parent);
        }
    }

  private:
    Bout& at(std::int32_t i) { return bouts_[static_cast<std::size_t>(i)]; }

    std::int32_t make(const Bout& bout) {
        if (free_.empty()) {
            bouts_.push_back(bout);
            return static_cast<std::int32_t>(bouts_.size() - 1);
        }
        const std::int32_t i = free_.back();
        free_.pop_back();
        at(i) = bout;
        return i;
    }

    void meet(std::int32_t i, std::size_t place) { at(i).round = round_, at(i).place = place; }

    // Renews the branch of a bout and of all between it and the root, as far as this round has not been there.
    void find_branch(std::int32_t leaf) {
        std::int32_t i = leaf;
        while (i != root_ && at(i).parent != root_ && at(i).round != round_) i = at(i).parent;
        if (i == root_) return;
        if (at(i).parent == root_) at(i).branch = i;
        const std::int32_t branch = at(i).branch;
        for (std::int32_t j = leaf; j != i; j = at(j).parent) at(j).branch = branch, at(j).round = round_;
        at(i).round = round_;
    }

    std::vector<Bout> bouts_;
    std::vector<std::int32_t> free_;
    std::int32_t root_ = kNobody;
    std::int64_t round_ = 0;
};

}  // namespace stageguard
