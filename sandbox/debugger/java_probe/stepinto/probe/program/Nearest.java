package stepinto.probe.program;

import java.util.ArrayList;
import java.util.Collection;
import java.util.HashSet;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Locale;
import java.util.Set;

/** The names nearest to one that does not exist. */
public final class Nearest {
    private static final int SHOWN = 5;
    private static final double LIKENESS = 0.4;

    private Nearest() {}

    /** {@code "; nearest: a, b"}, or nothing. */
    public static String names(String wanted, Collection<String> names) {
        List<String> close = closest(wanted, names, LIKENESS);
        return close.isEmpty() ? "" : "; nearest: " + String.join(", ", close);
    }

    /** Of names that are not near: all if they are few, else the nearest. */
    public static String inScope(String wanted, Collection<String> names) {
        String heading = names.size() <= SHOWN ? "; in scope: " : "; nearest names in scope: ";
        return heading + String.join(", ", closest(wanted, names, 0));
    }

    /** As {@code names}; files are near by their own name, in any folder. */
    static String files(String wanted, Collection<String> paths) {
        String base = wanted.substring(wanted.lastIndexOf('/') + 1);
        Set<String> close = new LinkedHashSet<>();
        for (String path : paths) {
            if (path.equals(base) || path.endsWith("/" + base)) {
                close.add(path);
            }
        }
        List<String> bases = new ArrayList<>();
        for (String path : paths) {
            bases.add(path.substring(path.lastIndexOf('/') + 1));
        }
        List<String> all = new ArrayList<>(paths);
        for (String name : closest(base, bases, LIKENESS)) {
            close.add(all.get(bases.indexOf(name)));
        }
        List<String> shown = new ArrayList<>(close);
        return shown.isEmpty() ? "" : "; nearest: " + list(shown);
    }

    /** The first few. */
    public static String list(List<String> names) {
        return String.join(", ", names.subList(0, Math.min(names.size(), SHOWN)));
    }

    /** The first few of those at least so alike, the most alike first. */
    private static List<String> closest(String wanted, Collection<String> names, double least) {
        List<String> found = new ArrayList<>();
        List<Double> scores = new ArrayList<>();
        Set<String> pairs = pairs(wanted);
        for (String name : new LinkedHashSet<>(names)) {
            double score = likeness(pairs, pairs(name));
            if (score < least) {
                continue;
            }
            int at = 0;
            while (at < found.size() && scores.get(at) >= score) {
                at++;
            }
            found.add(at, name);
            scores.add(at, score);
        }
        return found.subList(0, Math.min(found.size(), SHOWN));
    }

    /** The share of pairs of letters that two names have in common (Dice's coefficient). */
    private static double likeness(Set<String> first, Set<String> second) {
        Set<String> common = new HashSet<>(first);
        common.retainAll(second);
        return 2.0 * common.size() / (first.size() + second.size());
    }

    private static Set<String> pairs(String name) {
        String text = " " + name.toLowerCase(Locale.ROOT) + " ";
        Set<String> pairs = new HashSet<>();
        for (int at = 0; at + 2 <= text.length(); at++) {
            pairs.add(text.substring(at, at + 2));
        }
        return pairs;
    }
}
