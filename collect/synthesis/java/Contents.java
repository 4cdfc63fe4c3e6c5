package stepinto_trace;

import java.lang.reflect.Array;
import java.lang.reflect.Field;
import java.lang.reflect.Modifier;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Collections;
import java.util.HashMap;
import java.util.HashSet;
import java.util.IdentityHashMap;
import java.util.List;
import java.util.Map;

/** The contents of values, as a digest that is the same in another JVM. */
final class Contents {
    private static final int MAX_OBJECTS = 2000;
    private static final int MAX_DEPTH = 12;

    private final Map<Object, Integer> seen = new IdentityHashMap<>();

    private Contents() {}

    static String of(Object value) {
        String text = new Contents().text(value, 0);
        return Integer.toHexString(text.hashCode()) + "." + text.length();
    }

    private String text(Object value, int depth) {
        if (value == null || value instanceof Enum || value instanceof Class) {
            return String.valueOf(value);
        }
        Class<?> kind = value.getClass();
        if (kind.getName().startsWith("java.lang.") && !(value instanceof Throwable)) {
            return steady(String.valueOf(value));
        }
        if (seen.containsKey(value) || seen.size() > MAX_OBJECTS || depth > MAX_DEPTH) {
            return "#" + seen.get(value);
        }
        seen.put(value, seen.size());
        // The class of a lambda has a number that depends on what ran before.
        String name = kind.getName().replaceAll("\\$\\$Lambda.*", "");
        return name + parts(value, kind, depth + 1);
    }

    private List<String> parts(Object value, Class<?> kind, int depth) {
        List<String> parts = new ArrayList<>();
        try {
            if (kind.isArray()) {
                for (int i = 0; i < Array.getLength(value); i++) {
                    parts.add(text(Array.get(value, i), depth));
                }
            } else if (!kind.getName().startsWith("java.")) {
                for (Class<?> own = kind; own != null; own = own.getSuperclass()) {
                    fields(value, own, depth, parts);
                }
            } else if (value instanceof Map) {
                for (Map.Entry<?, ?> each : ((Map<?, ?>) value).entrySet()) {
                    parts.add(text(each.getKey(), depth) + "=" + text(each.getValue(), depth));
                }
            } else if (value instanceof Collection) {
                for (Object each : (Collection<?>) value) {
                    parts.add(text(each, depth));
                }
            } else {
                parts.add(steady(value.toString()));
            }
        } catch (RuntimeException | StackOverflowError error) {
            parts.add(error.getClass().getName());
        }
        if (kind == HashMap.class || kind == HashSet.class) {
            Collections.sort(parts);
        }
        return parts;
    }

    private void fields(Object value, Class<?> own, int depth, List<String> parts) {
        for (Field field : own.getDeclaredFields()) {
            if (Modifier.isStatic(field.getModifiers()) || field.isSynthetic()) {
                continue;
            }
            try {
                field.setAccessible(true);
                parts.add(field.getName() + "=" + text(field.get(value), depth));
            } catch (IllegalAccessException | RuntimeException closed) {
                // A field of the JDK.
            }
        }
    }

    /** Without identities. */
    private static String steady(String text) {
        return text.replaceAll("@[0-9a-f]+", "@");
    }
}
