package stepinto.probe.stops;

import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Set;
import java.util.TreeSet;
import stepinto.probe.program.ClassFile;
import stepinto.probe.program.ClassFiles;
import stepinto.probe.program.Nearest;
import stepinto.probe.program.TypeNames;
import stepinto.probe.wire.Refusal;

/** Finds the exception class that a breakpoint names. */
final class ExceptionNames {
    private static final String[] PACKAGES = {
        "java.lang.", "java.util.", "java.io.", "java.util.concurrent.", "java.util.zip.",
        "java.nio.file.", "java.net.", "java.text.", "java.time.", "java.sql.", "java.nio.",
        "java.lang.reflect.", "java.security.", "java.time.format.", "java.util.regex."
    };

    private ExceptionNames() {}

    /**
     * The class's whole name: the program's own first, then the JDK's, then those of the libraries,
     * of which several may have it.
     */
    static List<String> find(String name, ClassFiles classFiles) throws Refusal {
        List<String> own = new ArrayList<>();
        Set<String> known = new TreeSet<>();
        for (ClassFile type : classFiles.named("")) {
            known.add(TypeNames.simple(type.name));
            if (ClassFiles.matches(type.name, name)) {
                own.add(type.name);
            }
        }
        if (own.size() == 1) {
            return own;
        }
        if (own.size() > 1) {
            throw new Refusal(name + " is ambiguous: " + Nearest.list(own));
        }
        if (name.indexOf('.') >= 0) {
            return Collections.singletonList(name); // perhaps a library's, which is known once it is loaded
        }
        for (String folder : PACKAGES) {
            if (isException(folder + name)) {
                return Collections.singletonList(folder + name);
            }
        }
        List<String> libraries = classFiles.inLibraries(name);
        if (libraries.isEmpty()) {
            throw new Refusal("there is no exception class " + name + Nearest.names(name, known));
        }
        return libraries;
    }

    private static boolean isException(String name) {
        try {
            Class<?> type = Class.forName(name, false, ClassLoader.getSystemClassLoader());
            return Throwable.class.isAssignableFrom(type);
        } catch (ClassNotFoundException | LinkageError missing) {
            return false;
        }
    }
}
