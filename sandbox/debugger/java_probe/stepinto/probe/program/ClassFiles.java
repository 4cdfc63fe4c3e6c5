package stepinto.probe.program;

import java.io.File;
import java.io.IOException;
import java.util.*;
import java.util.zip.ZipEntry;
import java.util.zip.ZipFile;

/** The program's compiled classes, by their source files: known before they are loaded. */
public final class ClassFiles {
    private static final String ENDING = ".class";
    private final Target target;
    private final Sources sources;
    private final Map<String, List<ClassFile>> bySource = new HashMap<>();

    public ClassFiles(Target target, Sources sources) {
        this.target = target;
        this.sources = sources;
    }

    /** Every class that a source file was compiled to, inner and anonymous ones included. */
    public List<ClassFile> of(String path) {
        return bySource.computeIfAbsent(path, this::find);
    }

    private List<ClassFile> find(String path) {
        List<ClassFile> found = new ArrayList<>();
        File source = new File(path);
        for (String root : target.classRoots) {
            File folder = new File(root, sources.packageFolder(path));
            String[] names = folder.list((in, name) -> name.endsWith(ENDING));
            for (String name : names == null ? new String[0] : names) {
                int dollar = name.indexOf('$', 1);
                int end = dollar < 0 ? name.length() - ENDING.length() : dollar;
                String own = name.substring(0, end) + ".java";
                // Not from this source if there is one of its own name.
                boolean mayCome = own.equals(source.getName())
                        || !new File(source.getParentFile(), own).exists();
                ClassFile read = mayCome ? ClassFile.read(new File(folder, name)) : null;
                if (read != null && source.getName().equals(read.source)) {
                    found.add(read);
                }
            }
        }
        return found;
    }

    /** The program's classes that may hold a method; if a class name is given, only those of it. */
    public List<ClassFile> named(String qualifier) {
        List<ClassFile> found = new ArrayList<>();
        for (String root : target.classRoots) {
            Set<String> paths = new LinkedHashSet<>();
            Sources.walk(new File(root), ENDING, paths);
            for (String path : paths) {
                String inner = path.substring(root.length() + 1, path.length() - ENDING.length());
                if (qualifier.isEmpty() || matches(inner.replace('/', '.'), qualifier)) {
                    ClassFile read = ClassFile.read(new File(path));
                    if (read != null) {
                        found.add(read);
                    }
                }
            }
        }
        return found;
    }

    /** The classes of this simple name in the libraries on the program's class path. */
    public List<String> inLibraries(String simple) {
        List<String> found = new ArrayList<>();
        for (String library : target.libraries()) {
            try (ZipFile jar = new ZipFile(library)) {
                for (ZipEntry entry : Collections.list(jar.entries())) {
                    String path = entry.getName();
                    boolean named = path.endsWith("/" + simple + ENDING);
                    if (named || path.endsWith("$" + simple + ENDING)) {
                        String inner = path.substring(0, path.length() - ENDING.length());
                        found.add(inner.replace('/', '.'));
                    }
                }
            } catch (IOException unreadable) {
                continue; // the program can't load classes from it either
            }
        }
        return found;
    }

    /** Whether a class is meant by {@code pkg.Outer.Inner} or an end of that. */
    public static boolean matches(String name, String qualifier) {
        String dotted = name.replace('$', '.');
        String wanted = qualifier.replace('$', '.');
        return dotted.equals(wanted) || dotted.endsWith("." + wanted);
    }

    /** The source of a class; null if it is not here. */
    public String sourceOf(ClassFile type) {
        int dot = type.name.lastIndexOf('.');
        String folder = dot < 0 ? "" : type.name.substring(0, dot + 1).replace('.', '/');
        return type.source == null ? null : sources.find(folder + type.source);
    }

    /** The class of exactly that name; null if the program has none. */
    public ClassFile exactly(String name) {
        for (String root : target.classRoots) {
            File file = new File(root, name.replace('.', '/') + ENDING);
            if (file.isFile()) {
                return ClassFile.read(file);
            }
        }
        return null;
    }
}
