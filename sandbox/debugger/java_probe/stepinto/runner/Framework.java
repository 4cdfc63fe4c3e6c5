package stepinto.runner;

import java.lang.annotation.Annotation;
import java.lang.reflect.AnnotatedElement;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Modifier;
import java.util.Set;
import java.util.TreeSet;

/** A test framework that is on the class path. */
abstract class Framework {
    /** Run a selection and report each of its tests as it ends. */
    abstract void run(Selection selection, Report report) throws Exception;

    /** Run a selection; false where it holds no test. */
    final boolean runs(Selection selection, Report report) throws Exception {
        int before = report.tests();
        run(selection, report);
        return report.tests() > before;
    }

    /** The template of a test that must fail by this framework; null where there is none. */
    Class<?> canary() {
        return null;
    }

    /** The framework that a class is written for, else one that may know it. */
    static Framework of(Class<?> type) throws Selection.NoSuchTestException {
        Set<String> annotations = new TreeSet<String>();
        collect(type, annotations);
        boolean platform = present("org.junit.platform.launcher.core.LauncherFactory");
        if (platform && annotations.contains("org.junit.platform.commons.annotation.Testable")) {
            return new PlatformFramework();
        }
        if (startsWith(annotations, "org.testng.annotations.") && present("org.testng.TestNG")) {
            return new TestNgFramework();
        }
        boolean old = isTestCase(type) || startsWith(annotations, "org.junit.");
        if (old && present("org.junit.runner.JUnitCore")) {
            return new JUnit4Framework();
        }
        if (!old && MainFramework.isProgram(type)) {
            return new MainFramework();
        }
        if (platform) {
            return new PlatformFramework();
        }
        throw new Selection.NoSuchTestException(type.getName()
                + " is written for no test framework on the class path (JUnit 4, which runs"
                + " those of JUnit 3 too, JUnit 5, TestNG)");
    }

    static boolean present(String className) {
        try {
            Class.forName(className, false, Framework.class.getClassLoader());
            return true;
        } catch (ClassNotFoundException error) {
            return false;
        }
    }

    private static boolean isTestCase(Class<?> type) {
        for (Class<?> each = type; each != null; each = each.getSuperclass()) {
            if (each.getName().equals("junit.framework.TestCase")) {
                return true;
            }
        }
        return false;
    }

    private static boolean startsWith(Set<String> names, String prefix) {
        for (String name : names) {
            if (name.startsWith(prefix)) {
                return true;
            }
        }
        return false;
    }

    /** The annotations of a class, its parents, methods and nested classes, and theirs. */
    private static void collect(Class<?> type, Set<String> names) {
        for (Class<?> each = type; each != null && each != Object.class;
                each = each.getSuperclass()) {
            collectOf(each, names);
        }
        for (Method method : Selection.allMethods(type)) {
            collectOf(method, names);
        }
        for (Class<?> nested : type.getDeclaredClasses()) {
            collect(nested, names);
        }
    }

    private static void collectOf(AnnotatedElement element, Set<String> names) {
        for (Annotation annotation : element.getAnnotations()) {
            Class<?> type = annotation.annotationType();
            if (!type.getName().startsWith("java.") && names.add(type.getName())) {
                collectOf(type, names);
            }
        }
    }

    /** No framework: a program that checks itself, and passes by its main method's return. */
    private static final class MainFramework extends Framework {
        static boolean isProgram(Class<?> type) {
            try {
                Method main = type.getMethod("main", String[].class);
                return Modifier.isStatic(main.getModifiers()) && main.getReturnType() == void.class;
            } catch (NoSuchMethodException none) {
                return false;
            }
        }

        @Override
        void run(Selection selection, Report report) throws Exception {
            String name = selection.type.getName();
            Method main = selection.type.getMethod("main", String[].class);
            main.setAccessible(true);
            report.started(name);
            try {
                main.invoke(null, (Object) new String[0]);
                report.passed(name, null);
            } catch (InvocationTargetException error) {
                if (report.isKept()) {
                    error.getCause().printStackTrace();
                }
                report.failed(name, null, error.getCause());
            }
        }
    }
}
