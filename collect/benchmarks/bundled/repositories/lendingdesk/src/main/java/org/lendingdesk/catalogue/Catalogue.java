package org.lendingdesk.catalogue;

import java.util.ArrayList;
import java.util.List;
import java.util.stream.Collectors;

/** All copies of a library, numbered as they came in. */
public final class Catalogue {

    private final List<Copy> copies = new ArrayList<>();

    public Copy add(String title) {
        Copy copy = new Copy(copies.size(), title);
        copies.add(copy);
        return copy;
    }

    public Copy copy(int number) {
        if (number < 0 || number >= copies.size()) {
            throw new IllegalArgumentException("no copy has the number " + number);
        }
        return copies.get(number);
    }

    public List<Copy> copiesOf(String title) {
        return copies.stream()
                .filter(copy -> copy.title().equals(title))
                .collect(Collectors.toList());
    }
}
