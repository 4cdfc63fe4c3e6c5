package stepinto.runner;

import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Modifier;

/** No framework: a program that checks itself, and passes by its main method's return. */
final class MainFramework extends Framework {
    static boolean isProgram(Class<?> type) {
        try {
            Method main = type.getMethod("main", String[].class);
            return Modifier.isStatic(main.getModifiers()) && main.getReturnType() == void.class;
        } catch (NoSuchMethodException none) {
            return false;
        }
    }

    @Override
    Class<?> canary() {
        return null;
    }

    @Override
    boolean run(Selection selection, Report report) throws Exception {
        String name = selection.type.getName();
        Method main = selection.type.getMethod("main", String[].class);
        main.setAccessible(true);
        report.started(name);
        try {
            main.invoke(null, (Object) new String[0]);
            report.passed(name, null);
        } catch (InvocationTargetException error) {
            error.getCause().printStackTrace();
            report.failed(name, null, error.getCause());
        }
        return true;
    }
}
