package dev.gridcalc.sheet;

import java.util.ArrayDeque;
import java.util.Collections;
import java.util.Deque;
import java.util.HashMap;
import java.util.LinkedHashSet;
import java.util.Map;
import java.util.Set;

/** Which cells a formula needs, and the other way round. */
final class DependencyGraph {

    private final Map<CellRef, Set<CellRef>> needs = new HashMap<>();
    private final Map<CellRef, Set<CellRef>> usedBy = new HashMap<>();

    /** Replaces what a cell needs. */
    void update(CellRef cell, Set<CellRef> needed) {
        for (CellRef old : needs.getOrDefault(cell, Collections.emptySet())) {
            usedBy.get(old).remove(cell);
        }
        needs.put(cell, needed);
        for (CellRef each : needed) {
            usedBy.computeIfAbsent(each, key -> new LinkedHashSet<>()).add(cell);
        }
    }

    /** The cell itself, and all that are calculated from it, over any number of steps. */
    Set<CellRef> affectedBy(CellRef cell) {
        Set<CellRef> affected = new LinkedHashSet<>();
        Deque<CellRef> open = new ArrayDeque<>();
        open.add(cell);
        while (!open.isEmpty()) {
            CellRef next = open.remove();
            if (affected.add(next)) {
                open.addAll(usedBy.getOrDefault(next, Collections.emptySet()));
            }
        }
        return affected;
    }
}
