package stepinto.probe.stops;

import java.io.File;
import java.util.LinkedHashSet;
import java.util.Set;
import stepinto.probe.program.Target;

/** The classes that a step runs through without a stop, as patterns of JDI. */
final class Foreign {
    private static final String[] KNOWN = {
        "java.*", "javax.*", "jdk.*", "sun.*", "com.sun.*", "org.junit.*", "junit.*",
        "org.testng.*", "org.hamcrest.*", "org.opentest4j.*", "org.assertj.*", "org.mockito.*",
        "net.bytebuddy.*", "stepinto.*"
    };
    private final Set<String> patterns = new LinkedHashSet<>();

    Foreign(Target target) {
        for (String pattern : KNOWN) {
            String folder = pattern.substring(0, pattern.length() - 2).replace('.', '/');
            boolean own = false;
            for (String root : target.classRoots) {
                own |= new File(root, folder).exists();
            }
            if (!own) {
                patterns.add(pattern);
            }
        }
    }

    Set<String> patterns() {
        return patterns;
    }

    /** A class turned out not to be the program's. */
    void learn(String name) {
        if (name.indexOf('/') < 0) {
            patterns.add(name);
        }
    }
}
