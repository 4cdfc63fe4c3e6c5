package org.lendingdesk.readers;

import java.util.ArrayList;
import java.util.Collections;
import java.util.List;

/** Somebody with a library card. */
public final class Reader {

    /** Who is served first where several wait for a book. */
    public enum Card { TEACHING, REGULAR }

    private final String name;
    private final Card card;
    private final Account account = new Account();
    private final List<Integer> borrowed = new ArrayList<>();

    public Reader(String name, Card card) {
        this.name = name;
        this.card = card;
    }

    public String name() {
        return name;
    }

    public Card card() {
        return card;
    }

    public Account account() {
        return account;
    }

    /** The numbers of the copies at home, in the order in which they were borrowed. */
    public List<Integer> borrowed() {
        return Collections.unmodifiableList(borrowed);
    }

    public void takeHome(int copyNumber) {
        borrowed.add(copyNumber);
    }

    public void bringBack(int copyNumber) {
        borrowed.remove(Integer.valueOf(copyNumber));
    }

    @Override
    public String toString() {
        return name;
    }
}
