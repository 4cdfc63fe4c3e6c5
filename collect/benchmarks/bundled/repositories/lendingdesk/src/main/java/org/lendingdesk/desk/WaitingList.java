package org.lendingdesk.desk;

import java.time.LocalDate;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.TreeSet;
import java.util.stream.Collectors;

import org.lendingdesk.readers.Reader;

/** The readers who wait, by title. */
final class WaitingList {

    private final Map<String, TreeSet<Reservation>> reservations = new HashMap<>();
    private int count;

    void add(String title, Reader reader, LocalDate day) {
        queue(title).add(new Reservation(count++, reader, day));
    }

    /** Takes the first reader off the list. */
    Optional<Reader> next(String title) {
        return Optional.ofNullable(queue(title).pollFirst()).map(Reservation::reader);
    }

    List<String> names(String title) {
        return queue(title).stream()
                .map(reservation -> reservation.reader().name())
                .collect(Collectors.toList());
    }

    private TreeSet<Reservation> queue(String title) {
        return reservations.computeIfAbsent(title, key -> new TreeSet<>(Reservation.ORDER));
    }
}
