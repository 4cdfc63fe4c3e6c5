package io.rowpipe.steps;

import java.util.LinkedHashMap;
import java.util.Map;

/** What is said of one step: {@code fill column=price with=0}. */
public final class Options {

    private final String step;
    private final Map<String, String> values = new LinkedHashMap<>();

    private Options(String step) {
        this.step = step;
    }

    static Options parse(String text) {
        String[] words = text.trim().split("\\s+");
        Options options = new Options(words[0]);
        for (int each = 1; each < words.length; each++) {
            String[] parts = words[each].split("=", 2);
            options.values.put(parts[0], parts.length > 1 ? parts[1] : "");
        }
        return options;
    }

    String step() {
        return step;
    }

    String get(String name) {
        String value = values.get(name);
        if (value == null) {
            throw new IllegalArgumentException(step + " needs " + name + "=...");
        }
        return value;
    }

    String get(String name, String otherwise) {
        return values.getOrDefault(name, otherwise);
    }
}
