package stepinto.probe.program;

import com.sun.jdi.AbsentInformationException;
import com.sun.jdi.Location;
import com.sun.jdi.Method;
import com.sun.jdi.ReferenceType;
import java.io.File;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

/** Which classes are the program's own, and how its places are named. */
public final class Program {
    /** Ends the name of what a lambda runs, after the method that it is in. */
    public static final String IN_LAMBDA = ".<lambda>";

    private static final String LAMBDA = "lambda$";
    /** What runs programs and their tests, besides the JDK. */
    public static final List<String> RUNNERS = Arrays.asList(
        "stepinto.", "org.junit.", "junit.", "org.testng.", "org.opentest4j.", "org.hamcrest.",
        "org.apiguardian.", "org.assertj.", "org.mockito.", "net.bytebuddy.", "org.gradle.",
        "worker.org.gradle.", "org.apache.maven.");
    public final Target target;
    public final Sources sources;
    private final Map<ReferenceType, Facts> known = new HashMap<>();

    public Program(Target target, Sources sources) {
        this.target = target;
        this.sources = sources;
    }

    /** Whether a class is the program's own, and not of a library, the JDK or a test runner. */
    public boolean owns(ReferenceType type) {
        return facts(type).own;
    }

    /** The same of a class by its name, which need not be loaded. */
    public boolean owns(String type) {
        return new Facts(type).own;
    }

    public boolean owns(Location location) {
        return owns(location.declaringType());
    }

    /** Whether a frame is shown: one of the program or of a library it uses. */
    public boolean shows(Location location) {
        Method method = location.method();
        return !facts(location.declaringType()).hidden
                && !method.isBridge() && !method.name().startsWith("access$");
    }

    /** The file of a place: absolute, or as the class has it if its source is not here. */
    public String path(Location location) {
        Facts facts = facts(location.declaringType());
        if (facts.path == null) {
            try {
                String found = sources.find(location.sourcePath());
                facts.path = found == null ? location.sourcePath() : found;
            } catch (AbsentInformationException absent) {
                facts.path = "";
            }
        }
        return facts.path;
    }

    /** The source file of a class, by the file's name; the name if its source is not here. */
    public String path(String type, String file) {
        int dot = type.lastIndexOf('.');
        String folder = dot < 0 ? "" : type.substring(0, dot + 1).replace('.', '/');
        String found = sources.find(folder + file);
        return found == null ? file : found;
    }

    /** {@code Outer.Inner.method}; the body of a lambda as {@code Outer.method.<lambda>}. */
    public static String function(Location location) {
        Method method = location.method();
        return TypeNames.simple(method.declaringType().name()) + "." + name(method.name());
    }

    /** Whether a class is one of those that run programs and their tests. */
    public static boolean isRunner(String type) {
        return RUNNERS.stream().anyMatch(type::startsWith);
    }

    /** A method's name as a reader knows it. */
    public static String name(String method) {
        if (!method.startsWith(LAMBDA)) {
            return method;
        }
        int end = method.indexOf('$', LAMBDA.length());
        String outer = method.substring(LAMBDA.length(), end < 0 ? method.length() : end);
        String shown = outer.equals("new") ? "<init>" : outer.equals("static") ? "<clinit>" : outer;
        return shown + IN_LAMBDA;
    }

    private Facts facts(ReferenceType type) {
        return known.computeIfAbsent(type, each -> new Facts(each.name()));
    }

    private final class Facts {
        final boolean own;
        final boolean hidden;
        String path;

        Facts(String name) {
            boolean generated = name.indexOf('/') >= 0 || name.contains("$$");
            String file = name.replace('.', '/') + ".class";
            boolean here = false;
            for (String root : target.classRoots) {
                here |= !generated && new File(root, file).isFile();
            }
            // What runs the program: the JDK, a test runner, the probe.
            boolean foreign = generated || name.startsWith("$Proxy") || TypeNames.isPlatform(name);
            foreign |= isRunner(name);
            own = here;
            hidden = !own && foreign;
        }
    }
}
