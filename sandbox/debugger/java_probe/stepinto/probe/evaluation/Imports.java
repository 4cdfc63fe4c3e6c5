package stepinto.probe.evaluation;

import java.util.ArrayList;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Set;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/** What a source file imports: where a simple name may come from. */
final class Imports {
    private static final Pattern IMPORT =
            Pattern.compile("^\\s*import\\s+(static\\s+)?([\\w.]+?)\\s*(?:\\.\\s*(\\*))?\\s*;");

    /** As they stand in the source, for code that is compiled. */
    final List<String> declarations = new ArrayList<>();

    final String packageName;
    private final List<String> single = new ArrayList<>();
    private final Set<String> packages = new LinkedHashSet<>();
    private final Set<String> memberClasses = new LinkedHashSet<>();

    Imports(String packageName, String[] lines) {
        this.packageName = packageName;
        packages.add(packageName);
        for (String line : lines) {
            Matcher match = IMPORT.matcher(line);
            if (match.find()) {
                add(match.group(1) != null, match.group(2), match.group(3) != null);
                declarations.add(match.group().trim());
            }
        }
        packages.add("java.lang");
        packages.add("java.util");
    }

    private void add(boolean isStatic, String name, boolean all) {
        if (isStatic) {
            memberClasses.addAll(
                    nestings(all ? name : name.substring(0, name.lastIndexOf('.'))));
        }
        if (all && !isStatic) {
            packages.add(name);
        } else if (!all) {
            single.add(name);
        }
    }

    /** The binary names that a simple class name may stand for, the likeliest first. */
    Set<String> candidates(String name) {
        Set<String> found = new LinkedHashSet<>();
        for (String imported : single) {
            if (imported.endsWith("." + name)) {
                found.addAll(nestings(imported));
            }
        }
        for (String each : packages) {
            found.add(each.isEmpty() ? name : each + "." + name);
            if (!each.isEmpty() && Character.isUpperCase(each.charAt(each.lastIndexOf('.') + 1))) {
                for (String outer : nestings(each)) {
                    found.add(outer + "$" + name);
                }
            }
        }
        return found;
    }

    /** The classes whose static members are imported. */
    Set<String> memberClasses() {
        return memberClasses;
    }

    /** {@code a.B.C} may be a class of its own, or one nested in {@code a.B}. */
    private static List<String> nestings(String name) {
        List<String> found = new ArrayList<>();
        StringBuilder binary = new StringBuilder(name);
        found.add(name);
        for (int dot = name.lastIndexOf('.'); dot > 0; dot = name.lastIndexOf('.', dot - 1)) {
            int before = name.lastIndexOf('.', dot - 1);
            if (!Character.isUpperCase(name.charAt(before + 1))) {
                break;
            }
            binary.setCharAt(dot, '$');
            found.add(0, binary.toString());
        }
        return found;
    }
}
