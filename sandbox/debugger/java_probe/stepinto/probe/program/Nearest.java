package stepinto.probe.program;

import java.util.*;

/** The names nearest to one that does not exist. */
public final class Nearest {
    private static final int SHOWN = 5;
    private static final double LIKENESS = 0.45;

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
        Map<String, String> byBase = new LinkedHashMap<>();
        for (String path : paths) {
            String own = path.substring(path.lastIndexOf('/') + 1);
            byBase.putIfAbsent(own, path);
            if (own.equals(base)) {
                close.add(path);
            }
        }
        for (String name : closest(base, byBase.keySet(), LIKENESS)) {
            close.add(byBase.get(name));
        }
        List<String> shown = new ArrayList<>(close);
        return shown.isEmpty() ? "" : "; nearest: " + list(shown);
    }

    public static String list(List<String> names) {
        return String.join(", ", names.subList(0, Math.min(names.size(), SHOWN)));
    }

    /** The first few of those at least so alike, the most alike first. */
    private static List<String> closest(String wanted, Collection<String> names, double least) {
        Set<String> pairs = pairs(wanted);
        Map<String, Double> scores = new LinkedHashMap<>();
        for (String name : names) {
            // The share of pairs of letters that both have in common (Dice's coefficient).
            Set<String> own = pairs(name);
            Set<String> common = new HashSet<>(pairs);
            common.retainAll(own);
            double score = 2.0 * common.size() / (pairs.size() + own.size());
            if (score >= least) {
                scores.put(name, score);
            }
        }
        List<String> found = new ArrayList<>(scores.keySet());
        found.sort(Comparator.comparing(name -> -scores.get(name)));
        return found.subList(0, Math.min(found.size(), SHOWN));
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
