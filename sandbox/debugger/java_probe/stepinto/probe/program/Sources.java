package stepinto.probe.program;

import java.io.File;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.util.*;
import java.util.stream.Collectors;
import stepinto.probe.wire.Refusal;

/** The source files below the workspace, by absolute path. */
public final class Sources {
    private static final int MANY_FILES = 20_000;
    /** How far Linux's file times lag behind its clock at most: one tick, in milliseconds. */
    private static final int FILE_TIME_STEP = 10;
    private final Target target;
    private final Map<String, String[]> texts = new HashMap<>();
    private final long started = System.currentTimeMillis() - FILE_TIME_STEP;
    /** Files that were first read after they had been written anew. */
    private final Set<String> readLate = new HashSet<>();

    public Sources(Target target) {
        this.target = target;
    }

    /** The file of a path relative to a source root; null if there is none. */
    public String find(String relative) {
        for (String root : target.sourceRoots) {
            File file = new File(root, relative);
            if (file.isFile()) {
                return file.getPath();
            }
        }
        return null;
    }

    /** A path relative to the workspace if it lies below it. */
    public String relative(String path) {
        String prefix = target.workspace + "/";
        return path.startsWith(prefix) ? path.substring(prefix.length()) : path;
    }

    /** The lines of a file as they were when first read; none if it can't be read. */
    public String[] lines(String path) {
        return texts.computeIfAbsent(path, this::readFirst);
    }

    private String[] readFirst(String path) {
        if (new File(path).lastModified() > started) {
            readLate.add(path);
        }
        return read(path);
    }

    /** The lines of a file now, if it is no longer what was compiled; null otherwise. */
    public String[] edited(String path) {
        String[] compiled = lines(path);
        String[] now = read(path);
        return readLate.contains(path) || !Arrays.equals(compiled, now) ? now : null;
    }

    /** The lines that were compiled, as far as they are known. */
    public String[] compiled(String path) {
        String[] first = lines(path);
        return readLate.contains(path) ? new String[0] : first;
    }

    private static String[] read(String path) {
        File file = new File(path);
        if (!file.isFile()) {
            return new String[0]; // a pipe or a device, which may have no end
        }
        try {
            byte[] data = Files.readAllBytes(file.toPath());
            String text = new String(data, StandardCharsets.UTF_8);
            String[] lines = text.split("\r?\n", -1);
            // The end of the last line begins no other.
            boolean ended = lines[lines.length - 1].isEmpty();
            return ended ? Arrays.copyOf(lines, lines.length - 1) : lines;
        } catch (IOException error) {
            return new String[0];
        }
    }

    /** The text of a line without its indentation; empty if there is none. */
    public String line(String path, int number) {
        String[] lines = lines(path);
        return number > 0 && number <= lines.length ? lines[number - 1].trim() : "";
    }

    /** The one file with this path, or end of a path. Refuses others with the nearest names. */
    public String file(String name) throws Refusal {
        File direct = name.startsWith("/") ? new File(name) : new File(target.workspace, name);
        if (direct.isFile()) {
            return direct.toPath().normalize().toString();
        }
        String ending = "/" + (name.startsWith("./") ? name.substring(2) : name);
        Set<String> all = new LinkedHashSet<>();
        for (String root : target.sourceRoots) {
            walk(new File(root), ".java", all);
        }
        List<String> matches = new ArrayList<>(all);
        matches.removeIf(path -> !path.endsWith(ending));
        if (matches.size() == 1) {
            return matches.get(0);
        }
        if (matches.size() > 1) {
            throw new Refusal(name + " is ambiguous: " + Nearest.list(relatives(matches)));
        }
        throw new Refusal("there is no file " + name + Nearest.files(name, relatives(all)));
    }

    private List<String> relatives(Collection<String> paths) {
        return paths.stream().map(this::relative).collect(Collectors.toList());
    }

    /** The files below a folder that end so, hidden folders left out. */
    static void walk(File folder, String ending, Set<String> found) {
        File[] files = folder.listFiles();
        for (File file : files == null ? new File[0] : files) {
            String name = file.getName();
            if (name.endsWith(ending)) {
                found.add(file.getPath());
            } else if (!name.startsWith(".") && found.size() < MANY_FILES && file.isDirectory()) {
                walk(file, ending, found);
            }
        }
    }

    /** The folder of a source file's package: {@code demo/parts}, empty for none. */
    String packageFolder(String path) {
        for (String line : lines(path)) {
            String text = line.trim();
            if (text.startsWith("package ") && text.indexOf(';') > 0) {
                return text.substring("package ".length(), text.indexOf(';')).trim()
                        .replace('.', '/');
            }
        }
        return "";
    }
}
