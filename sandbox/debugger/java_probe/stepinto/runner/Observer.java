package stepinto.runner;

import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;

/**
 * A class of the program that hears of each test: its static methods {@code started(String test)}
 * and {@code ended(String test, boolean failed)}.
 */
final class Observer {
    private final Method started;
    private final Method ended;

    private Observer(Method started, Method ended) {
        this.started = started;
        this.ended = ended;
    }

    static Observer of(String className) throws ReflectiveOperationException {
        Class<?> type = Class.forName(className);
        return new Observer(type.getMethod("started", String.class),
                type.getMethod("ended", String.class, boolean.class));
    }

    void started(String test) {
        call(started, test);
    }

    void ended(String test, boolean failed) {
        call(ended, test, failed);
    }

    private static void call(Method method, Object... arguments) {
        try {
            method.invoke(null, arguments);
        } catch (IllegalAccessException error) {
            throw new IllegalStateException(error);
        } catch (InvocationTargetException error) {
            throw new IllegalStateException(error.getCause());
        }
    }
}
